"""A partition that a client wants to read, or the error that readers understand."""

from __future__ import annotations

from quorate.broker.kafka.backend import Backend, KafkaFailure, Partition
from quorate.broker.protocol.kafka.errors import Error


def partition_to_read(backend: Backend, name: str, index: int) -> Partition:
    """The replica here. Raises KafkaFailure.

    That a queue is the cluster's own, producers are told by INVALID_TOPIC_EXCEPTION. Of consumers, Java's does not know that
    one, and raises as if we were broken, or tries for ever.
    """
    try:
        return backend.partition(name, index)
    except KafkaFailure as failure:
        if failure.error == Error.INVALID_TOPIC_EXCEPTION:
            raise KafkaFailure(Error.TOPIC_AUTHORIZATION_FAILED, failure.message) from failure
        raise
