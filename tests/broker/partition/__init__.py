"""Tests of partitions, on three real runtimes in one process."""
