"""Tests of the consumer-group coordinator."""
