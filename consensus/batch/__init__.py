"""A batch as it is stored and sent: the header of a Kafka RecordBatch v2, its checksum, and control batches.

Not here: the records inside (`quorate.broker.protocol.records`). A follower, the disk and a fetch never look at those.
"""
