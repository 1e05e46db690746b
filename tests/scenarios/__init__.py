"""Readable Raft scripts with their expected output, and the small language they are written in."""
