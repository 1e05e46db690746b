"""The runtime: several nodes over real sockets, in one process and in several."""
