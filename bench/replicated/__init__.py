"""The parts of `bench.replicated_append`: node processes, a client process, the probes, and what they say to one another."""
