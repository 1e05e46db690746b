"""Tests of quorate.chaos."""
