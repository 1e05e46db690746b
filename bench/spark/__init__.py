"""How fast the Spark source and sink are. `python -m bench.spark.decode` needs no Spark."""
