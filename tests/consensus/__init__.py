"""Tests of Raft: the core, and what drives it."""
