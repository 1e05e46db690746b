"""Tests of the batch header, its checks and control batches."""
