"""Tests of what goes over the wire, against what real clients write and read."""
