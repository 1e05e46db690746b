"""InitProducerId: who an idempotent producer is. Transactions are refused in words."""

from __future__ import annotations

import logging

from quorate.broker.kafka.backend import KafkaFailure
from quorate.broker.kafka.context import Call, Context, Message
from quorate.broker.protocol.kafka.errors import Error

_LOG = logging.getLogger("quorate.kafka")


async def init_producer_id(context: Context, call: Call, message: Message) -> Message:
    """A new id. The epoch of an old one is raised by giving the producer another id."""
    try:
        if message.get("transactional_id") is not None:
            # The answer has no room for words, so they go into the log.
            _LOG.warning("client %s (%s): transactions are not supported", call.host, call.client_id)
            raise KafkaFailure(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactions are not supported")
        given = await context.backend.new_producer_id()
    except KafkaFailure as failure:
        return {"throttle_time_ms": 0, "error_code": int(failure.error), "producer_id": -1, "producer_epoch": -1}
    return {"throttle_time_ms": 0, "error_code": 0, "producer_id": given.id, "producer_epoch": given.epoch}
