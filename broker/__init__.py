"""A node: partitions and their state machines, work-queue semantics, cluster metadata, listeners, security.

Not here: replication itself (`quorate.consensus`) and what applications import (`quorate.client`).
Of our own packages, broker imports consensus only.
"""
