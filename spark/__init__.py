"""The Spark structured-streaming source and sink, and the pipelines that run on Spark.

Of our own packages, spark imports `quorate.client` only. Needs the `spark` extra.
Not here: anything a broker needs; no broker loads Spark.
"""
