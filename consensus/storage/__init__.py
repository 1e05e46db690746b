"""One replica's log on disk: the contract, the LevelDB log, its twin in memory, and the threads that write.

Nothing here knows about Raft's rules: it carries out `Persist` and gives back what it was given.
"""
