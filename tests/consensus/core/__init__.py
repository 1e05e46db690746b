"""Tests of the Raft core by itself, after the paper, rule by rule."""
