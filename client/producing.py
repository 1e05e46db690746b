"""Producing whole batches, and becoming an idempotent producer.

A batch of an idempotent producer is repeated until it is known to stand; any other only while it certainly does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.broker.protocol.batches import HEADER_BYTES, NO_PRODUCER, read_header
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response
from quorate.broker.protocol.kafka.errors import BadMessage
from quorate.broker.protocol.kafka.fetched import encode_produce_body
from quorate.client.connection import Answer, Request
from quorate.client.core import Core, Message, Moved, Part, refusal
from quorate.client.errors import BadAnswer, BadInput, RequestFailed
from quorate.client.metadata import Leader
from quorate.client.pool import Lane
from quorate.client.values import Address, Buffer, Produced, ProducerId

_ACKS: Final = (-1, 0, 1)
_TRANSACTION_MS: Final = 60_000  # means nothing without transactions


async def produce(core: Core, part: Part, batch: Buffer, *, acks: int = -1) -> Produced:
    """Append one batch (RecordBatch v2). Errors that are not `definite`: it may stand in the log, or come to do so."""
    if acks not in _ACKS:
        raise BadInput(f"acks {acks} is none of -1, 0, 1")
    view, idempotent = whole_batch(batch)
    timeout_ms = core.settings.request_timeout_ms

    def encode(version: int) -> Sequence[Buffer]:
        return encode_produce_body(version, part.topic, part.partition, view, acks, timeout_ms)

    # The node is the first to give up, so that the answer says what became of it.
    request = Request(Api.PRODUCE, encode, core.timeout_s + 1.0, acks != 0)

    async def once(leader: Leader) -> Produced:
        answer = await core.pool.ask(leader.address, request, Lane.ORDERED)
        return _produced(leader.address, part, answer) if acks else Produced(-1, -1)

    return await core.at_leader(part, once, again=lambda error: idempotent or error.definite)


def whole_batch(batch: Buffer) -> tuple[memoryview, bool]:
    """Its bytes, and whether its producer is idempotent. Raises BadInput for anything but exactly one batch."""
    view = memoryview(batch).cast("B")
    if len(view) >= HEADER_BYTES:
        header = read_header(view)
        if header.size == len(view):
            return view, header.producer_id != NO_PRODUCER
    raise BadInput(f"{len(view)} bytes that are not exactly one batch")


def _produced(address: Address, part: Part, answer: Answer) -> Produced:
    one = _only(address, part, answer)
    error = refusal(part, one["error_code"], "an append to", one.get("error_message"))
    if error is not None:
        leader: Message = one.get("current_leader") or {}
        raise Moved(error, leader.get("leader_id", -1), leader.get("leader_epoch", -1))
    return Produced(one["base_offset"], one["log_append_time_ms"])


def _only(address: Address, part: Part, answer: Answer) -> Message:
    try:
        said = decode_response(Api.PRODUCE, answer.version, answer.body)
    except BadMessage as error:
        raise BadAnswer(str(address), f"PRODUCE: {error}") from error
    for topic in said["responses"]:
        for one in topic["partition_responses"]:
            if (topic["name"], one["index"]) == part:
                return dict(one)
    raise BadAnswer(str(address), f"PRODUCE: nothing about {part}")


async def new_producer(core: Core) -> ProducerId:
    """An id that nobody has had. Asked for twice by a repetition, one of two is never used, which does no harm."""

    async def once() -> ProducerId:
        value = {"transactional_id": None, "transaction_timeout_ms": _TRANSACTION_MS}
        said = await core.ask_anybody(Api.INIT_PRODUCER_ID, value)
        if said["error_code"]:
            raise RequestFailed(said["error_code"], "a producer id")
        return ProducerId(said["producer_id"], said["producer_epoch"])

    return await core.repeat(once)
