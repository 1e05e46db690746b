"""The Spark structured-streaming source and sink, and the pipelines that run on Spark.

`spark.dataSource.register(QuorateDataSource)` makes the format "quorate" known. Of our own packages, spark imports
`quorate.client` only. Needs the `spark` extra. Not here: anything a broker needs; no broker loads Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.spark.source import QuorateDataSource

__all__ = ["QuorateDataSource"]


def __getattr__(name: str) -> object:
    """pyspark is loaded when it is needed: the command line lists the pipelines where there is none."""
    if name != "QuorateDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from quorate.spark.source import QuorateDataSource

    return QuorateDataSource
