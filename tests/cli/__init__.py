"""Tests of the `quorate` command."""
