"""Faults on a real cluster, workloads that run under them, the histories they leave, the checkers and the report.

May import any of our packages but cli. Not here: the deterministic simulator of the core (`tests/sim/`).
"""
