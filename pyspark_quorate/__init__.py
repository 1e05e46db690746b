"""Spark looks for packages of this name and finds the format "quorate" here, without anybody registering it.

It looks wherever Quorate is installed, with the extra `spark` or without: what is missing here must not keep it from others.
"""

from importlib.util import find_spec

if all(find_spec(name) is not None for name in ("numpy", "pyarrow")):
    from quorate.spark.source import QuorateDataSource

    DefaultSource = QuorateDataSource
