"""Raft: the sans-IO core, and around it the log on disk, the synchronized clock, the peer transport and the runtime.

`quorate.consensus.core` decides and never performs; everything else here carries out what it decided.
Not here: partitions, queues or anything a client sees (`quorate.broker`). Nothing here imports broker.
"""
