"""What applications import: the async client and its blocking twin.

Of our own packages, client imports `quorate.broker.protocol` only, so an application never loads a broker.
Not here: the command line (`quorate.cli`) and the Spark source and sink (`quorate.spark`).
"""
