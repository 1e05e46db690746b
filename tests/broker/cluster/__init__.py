"""Tests of cluster metadata and the internal manager."""
