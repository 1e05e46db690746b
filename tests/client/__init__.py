"""The client library: against scripted nodes, listeners with logs in memory, and real clusters."""
