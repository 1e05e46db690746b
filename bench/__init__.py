"""Benchmarks. `python -m bench.core` measures the consensus core alone; `make bench` runs it."""
