"""The Spark structured-streaming source and sink, and the pipelines that run on Spark.

`spark.dataSource.register(QuorateDataSource)` makes the format "quorate" known. Of our own packages, spark imports
`quorate.client` only. Needs the `spark` extra. Not here: anything a broker needs; no broker loads Spark.
"""

from quorate.spark.source import QuorateDataSource

__all__ = ["QuorateDataSource"]
