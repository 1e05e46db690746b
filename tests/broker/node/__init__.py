"""Tests of a node's settings and its assembly."""
