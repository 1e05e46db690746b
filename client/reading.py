"""Reading: offsets, and one fetch. Safe to repeat, so all of it goes on at the next leader. Not here: `streaming`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.broker.protocol.batches import BadBatch, span
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import encode_request
from quorate.broker.protocol.kafka.errors import BadMessage, Error
from quorate.broker.protocol.kafka.fetch import FetchedPartition
from quorate.broker.protocol.kafka.fetched import decode_fetch_response
from quorate.client.attempts import Attempts
from quorate.client.connection import Answer, Request
from quorate.client.core import Core, Message, Moved, Part, by_topic, refusal
from quorate.client.errors import BadAnswer, BadInput, OffsetOutOfRange, QuorateError, RequestFailed
from quorate.client.metadata import Leader
from quorate.client.pool import Lane
from quorate.client.values import EARLIEST, LATEST, MAX_TIMESTAMP, Address, Fetched, FoundOffset

_NOBODY: Final = -1
_MOST_BYTES: Final = (1 << 31) - 1
NO_END: Final = 1 << 63


async def offsets(core: Core, wishes: Mapping[Part, int]) -> dict[Part, FoundOffset]:
    """For each partition the first offset at or after a time in ms, or what EARLIEST, LATEST, MAX_TIMESTAMP mean."""
    for part, wish in wishes.items():
        if wish < MAX_TIMESTAMP:
            raise BadInput(f"{part}: {wish} is neither a time nor a wish for an offset")

    async def ask(address: Address, parts: Sequence[Part]) -> dict[Part, FoundOffset | QuorateError]:
        topics = [
            {
                "name": topic,
                "partitions": [{"partition_index": one, "timestamp": wishes[Part(topic, one)]} for one in partitions],
            }
            for topic, partitions in by_topic(parts).items()
        ]
        value = {"replica_id": _NOBODY, "isolation_level": 0, "topics": topics}
        said = await core.ask(address, Api.LIST_OFFSETS, value)
        return dict(_found(topic["name"], one) for topic in said["topics"] for one in topic["partitions"])

    return await core.at_leaders(wishes, ask)


def _found(topic: str, one: Message) -> tuple[Part, FoundOffset | QuorateError]:
    part = Part(topic, one["partition_index"])
    found = FoundOffset(one["offset"], one["timestamp"], one.get("leader_epoch", -1))
    return part, refusal(part, one["error_code"], "an offset of") or found


async def fetch(
    core: Core, part: Part, offset: int, *, max_bytes: int, min_bytes: int = 1, max_wait_ms: int = 0, epoch: int = -1
) -> Fetched:
    """Whole batches from the one that holds `offset` on; at least one if there is any. Waits for it up to `max_wait_ms`."""
    return await Fetcher(core, part, max_bytes, min_bytes, max_wait_ms, epoch).fetch(offset, NO_END)


class Fetcher:
    """Fetches of one partition with the same limits."""

    def __init__(
        self, core: Core, part: Part, max_bytes: int, min_bytes: int = 1, max_wait_ms: int = 0, epoch: int = -1
    ) -> None:
        if not 1 <= max_bytes <= _MOST_BYTES:
            raise BadInput(f"max_bytes must be between 1 and {_MOST_BYTES}, not {max_bytes}")
        if not 0 <= max_wait_ms <= _MOST_BYTES or not 0 <= min_bytes <= _MOST_BYTES:
            raise BadInput(f"min_bytes and max_wait_ms must not be negative, and are {min_bytes} and {max_wait_ms}")
        self._core = core
        self._part = part
        self._limits = {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes}
        self._timeout_s = core.timeout_s + max_wait_ms / 1000
        self._epoch = epoch
        self.next_offset = 0
        """After the batches of the last fetch."""

    async def fetch(self, offset: int, end: int, attempts: Attempts | None = None) -> Fetched:
        """Batches from `offset` on that begin before `end`. Raises QuorateError when no further attempt makes sense."""
        if offset < 0:
            raise BadInput(f"{self._part}: offset {offset}")
        attempts = attempts or self._core.attempts()

        async def once(leader: Leader) -> Fetched:
            request = Request(Api.FETCH, lambda version: [self._encode(version, offset)], self._timeout_s)
            answer = await self._core.pool.ask(leader.address, request, Lane.ALONE)
            return self._judge(leader.address, self._decode(leader.address, answer), offset, end)

        while True:
            try:
                return await self._core.at_leader(self._part, once, again=self._worth_it, attempts=attempts)
            except RequestFailed as error:
                if error.error != Error.OFFSET_OUT_OF_RANGE:
                    raise
                await attempts.pause(await self._out_of_range(offset, error))

    def _worth_it(self, error: QuorateError) -> bool:
        # An epoch that the caller insists on does not come back.
        fenced = isinstance(error, RequestFailed) and error.error == Error.FENCED_LEADER_EPOCH
        return not (fenced and self._epoch >= 0)

    async def _out_of_range(self, offset: int, refused: RequestFailed) -> QuorateError:
        """Say what is there. The offset may be there after all: a node that has just begun to lead did not know yet."""
        start = (await offsets(self._core, {self._part: EARLIEST}))[self._part].offset
        end = (await offsets(self._core, {self._part: LATEST}))[self._part].offset
        if start <= offset <= end:
            refused.retriable = True
            return refused
        return OffsetOutOfRange(self._part, offset, start, end)

    def _encode(self, version: int, offset: int) -> bytes:
        wish = {
            "partition": self._part.partition,
            "current_leader_epoch": self._epoch,
            "fetch_offset": offset,
            "partition_max_bytes": self._limits["max_bytes"],
        }
        topics = [{"topic": self._part.topic, "partitions": [wish]}]
        return encode_request(Api.FETCH, version, {**self._limits, "topics": topics, "rack_id": ""})

    def _decode(self, address: Address, answer: Answer) -> FetchedPartition:
        try:
            said = decode_fetch_response(answer.version, answer.body)
        except BadMessage as error:
            raise BadAnswer(str(address), f"FETCH: {error}") from error
        if said.error:
            raise RequestFailed(said.error, f"a fetch of {self._part}")
        for topic, partitions in said.topics:
            for one in partitions:
                if (topic, one.partition) == self._part:
                    return one
        raise BadAnswer(str(address), f"FETCH: nothing about {self._part}")

    def _judge(self, address: Address, one: FetchedPartition, offset: int, end: int) -> Fetched:
        error = refusal(self._part, one.error, "a fetch of")
        if error is not None:
            raise Moved(error, one.leader_id, one.leader_epoch)
        data = memoryview(b"")
        self.next_offset = offset
        for part in one.records:
            try:
                start, stop, self.next_offset = span(part, offset, end, check=self._core.settings.check_crcs)
            except BadBatch as bad:
                raise BadAnswer(str(address), f"{self._part} from offset {offset} on: {bad}") from bad
            data = memoryview(part)[start:stop]
            if not data:
                raise BadAnswer(str(address), f"{self._part}: {len(part)} bytes, and none of offset {offset}")
        return Fetched(one.high_watermark, one.log_start, data)
