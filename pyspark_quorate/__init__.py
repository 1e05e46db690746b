"""Spark looks for packages of this name and finds the format "quorate" here, without anybody registering it."""

from quorate.spark.source import QuorateDataSource as DefaultSource

__all__ = ["DefaultSource"]
