"""The Kafka listener: the TCP side (framing, order, limits), and a handler for each API.

All that it knows of the cluster comes through `backend.Backend`. How messages look is a matter of `protocol.kafka`.
"""
