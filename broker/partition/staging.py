"""Staging, on a leader: taking batches for later, saying whether a stage is whole, publishing and dropping.

Whether a stage is committed is not decided here: see docs/adr/0006-staged-writes.md. `stages` has the replicated state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from quorate.broker.partition.reading import Reading
from quorate.broker.partition.settings import PartitionSettings
from quorate.broker.partition.stages import StagedBatch, stage_batch, stage_drop_batch
from quorate.broker.partition.state import last_sequence
from quorate.broker.partition.values import Appended, KafkaFailure, failure_of, refusal_of
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.control import read_control
from quorate.consensus.batch.errors import BadBatch
from quorate.consensus.batch.header import NO_PRODUCER, TRANSACTIONAL, Header, batch_size
from quorate.consensus.batch.validate import validate
from quorate.consensus.clock.kernel import TimeSource
from quorate.consensus.core import GroupId, Offset
from quorate.consensus.core.types import Buffer
from quorate.consensus.runtime import MultiRaft, OperationFailed, Outcome, Proposed
from quorate.consensus.storage.api import LogStore

StageDone = Callable[[Appended | KafkaFailure], None]
_ROUND_BYTES: Final = 8 << 20
"""So much is read and appended at a time while a stage is published; at least one batch."""


class StagePart(NamedTuple):
    """What a client says it has staged in one partition under one producer id."""

    producer: int
    batches: int
    records: int


class _Flying:
    """A batch that was given to the log to be staged. It counts until it is applied, or has failed."""

    __slots__ = ("base", "first", "last", "waiting")

    def __init__(self, first: int, last: int, done: StageDone) -> None:
        self.first = first
        self.last = last
        self.base = -1
        """Its offset once it is committed."""
        self.waiting = [done]


class Staging(Reading):
    """The staging part of `Partition`."""

    def __init__(
        self, runtime: MultiRaft, group: GroupId, store: LogStore, settings: PartitionSettings, time: TimeSource
    ) -> None:
        super().__init__(runtime, group, store)
        self.settings = settings
        """May be replaced at any time."""
        self._time = time
        self._staging: dict[int, list[_Flying]] = {}

    def _require_applied(self) -> None:
        """Raise KafkaFailure unless this leader has applied everything that leaders before it may have committed."""
        if not self.leads or self._applied < self._term_start:
            raise self._not_leading()

    # Taking batches.

    def stage(self, data: Buffer, done: StageDone) -> None:
        """Keep exactly one batch of an idempotent producer for later: its sequence begins at 0 and has no gaps. `done` is
        told the offset of the control batch that holds it, once that is committed; for a repeated batch, that of the first.
        Raises KafkaFailure, and then `done` is not called.
        """
        self._require_applied()
        if len(data) > self.settings.max_message_bytes:
            raise KafkaFailure(
                Error.MESSAGE_TOO_LARGE, f"{len(data)} bytes, and {self.settings.max_message_bytes} are the most"
            )
        try:
            header = validate(data)
        except BadBatch as error:
            raise refusal_of(error) from error
        if header.producer_id == NO_PRODUCER or header.attributes & TRANSACTIONAL:
            raise KafkaFailure(Error.INVALID_RECORD, "only an idempotent producer can stage, and there are no transactions")
        known = self._judge_stage(header)
        if known is None:
            self._submit_stage(data, header, done)
        elif isinstance(known, StagedBatch):
            done(Appended(known.offset, -1, self.log_start, self.term))
        else:
            known.waiting.append(done)

    def _judge_stage(self, header: Header) -> _Flying | StagedBatch | None:
        """None for a batch that may be staged; what it repeats, if it does. Raises KafkaFailure."""
        producer, first = header.producer_id, header.base_sequence
        last = last_sequence(first, header.last_delta)
        stages = self.state.stages
        stage, flying = stages.open.get(producer), self._staging.get(producer, ())
        if producer in stages.ended or (stage is not None and stage.published):
            raise KafkaFailure(Error.INVALID_TXN_STATE, f"the stage of producer {producer} is over: committed or dropped")
        if producer in self.state.producers:
            raise KafkaFailure(Error.INVALID_TXN_STATE, f"producer {producer} appends here, and cannot stage too")
        if flying:
            expected = last_sequence(flying[-1].last, 1)
        else:
            expected = stage.following if stage is not None else 0
        if first == expected:
            return None
        for entry in flying:
            if (entry.first, entry.last) == (first, last):
                return entry
        for batch in stage.batches if stage is not None else ():
            if (batch.first, batch.last) == (first, last):
                return batch
        raise KafkaFailure(
            Error.OUT_OF_ORDER_SEQUENCE_NUMBER, f"producer {producer} stages sequence {first}, and {expected} is the next"
        )

    def _submit_stage(self, data: Buffer, header: Header, done: StageDone) -> None:
        entry = _Flying(header.base_sequence, last_sequence(header.base_sequence, header.last_delta), done)
        settled = partial(self._stage_settled, header.producer_id, entry)
        try:
            self._runtime.submit(self._group, stage_batch(data), 1, settled)
        except OperationFailed as error:
            raise failure_of(error) from error
        self._staging.setdefault(header.producer_id, []).append(entry)

    def _stage_settled(self, producer: int, entry: _Flying, outcome: Outcome) -> None:
        answer: Appended | KafkaFailure
        if isinstance(outcome, Proposed):
            entry.base = outcome.offset
            if outcome.offset <= self._applied:
                self._forget_flying(producer, entry)
            answer = Appended(outcome.offset, outcome.timestamp, self.log_start, outcome.term)
        else:
            self._forget_flying(producer, entry)
            answer = failure_of(outcome)
        waiting, entry.waiting = entry.waiting, []
        for done in waiting:
            done(answer)

    def _forget_flying(self, producer: int, entry: _Flying) -> None:
        flying = self._staging.get(producer)
        if flying is not None and entry in flying:
            flying.remove(entry)
            if not flying:
                del self._staging[producer]

    def _staged_applied(self) -> None:
        """The state has what was staged up to where it was applied."""
        for producer, flying in list(self._staging.items()):
            for entry in [entry for entry in flying if 0 <= entry.base <= self._applied]:
                self._forget_flying(producer, entry)

    def _refuse_stager(self, producer: int) -> None:
        """Raise KafkaFailure if a producer stages here: its records would be taken for the stage's own."""
        if producer in self.state.stages.open or producer in self._staging:
            raise KafkaFailure(Error.INVALID_TXN_STATE, f"producer {producer} stages here, and cannot append too")

    # Saying whether it is whole.

    async def check_stages(self, parts: Sequence[StagePart]) -> None:
        """Make sure that all of this is staged here, whole, and young enough to be committed. Raises KafkaFailure."""
        await self._read_index()
        stages, now = self.state.stages.open, self._time.now()
        for producer, batches, records in parts:
            stage = stages.get(producer)
            if stage is None:
                raise _not_whole(producer, "nothing of it is here: never staged, or committed, dropped or expired")
            if stage.published:
                raise _not_whole(producer, "it was committed already")
            if (len(stage.batches), stage.records) != (batches, records):
                raise _not_whole(
                    producer,
                    f"{len(stage.batches)} batches of {stage.records} records are here, not {batches} of {records}",
                )
            if now - stage.stamp > self.settings.stage_expiry_ms // 2:
                raise _not_whole(producer, "it is too old to be committed, and will expire")

    async def _read_index(self) -> None:
        """Return once this leader was confirmed and has applied what is committed now. Raises KafkaFailure."""
        self._require_current(-1)
        try:
            await self._runtime.read_index(self._group)
        except OperationFailed as error:
            raise failure_of(error) from error
        self._require_applied()

    # Publishing. Only what is committed, for good, is published; the caller knows.

    async def publish(self, producer: int) -> None:
        """Append what a producer has staged as records, in order; what is published already is not appended again. Returns
        when all of it is applied. Nothing is staged: then it was published before. Raises KafkaFailure; try again.

        Call it for one producer at a time. A leader that takes over goes on where the log ends: before it may begin, it has
        applied everything that leaders before it have appended and that is still there.
        """
        while True:
            self._require_applied()
            stage = self.state.stages.open.get(producer)
            if stage is None:
                return
            published = stage.published
            await self._publish_some(producer, stage.batches[published:])
            if stage.published == published:
                raise KafkaFailure(Error.NOT_ENOUGH_REPLICAS, f"the stage of producer {producer} is not published now")

    async def _publish_some(self, producer: int, batches: Sequence[StagedBatch]) -> None:
        """Append a few of these, and wait until what was appended is applied."""
        outcomes: list[asyncio.Future[Outcome]] = []
        size, term = 0, self.term
        for staged in batches:
            data = await self._read_staged(staged)
            if outcomes and size + len(data) > _ROUND_BYTES:
                break
            size += len(data)
            if self.term != term or not self.leads:
                # Another leader may have gone on with it while this one read.
                break
            outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            try:
                self._runtime.submit(self._group, data, staged.records, outcome.set_result)
            except OperationFailed as error:
                if not outcomes:
                    raise failure_of(error) from error
                break
            outcomes.append(outcome)
        results = [await outcome for outcome in outcomes]
        last = max((result.offset for result in results if isinstance(result, Proposed)), default=-1)
        await self._until_applied(last)
        for result in results:
            if isinstance(result, OperationFailed):
                raise failure_of(result)

    async def _read_staged(self, staged: StagedBatch) -> bytearray:
        """The batch as the client sent it, from memory or from the disk."""
        try:
            _, found = self._runtime.read_committed(self._group, Offset(staged.offset), 0)
        except OperationFailed as error:
            raise failure_of(error) from error
        stored: Buffer
        if found:
            stored = found[0].data
        else:
            read = await self._read(self._store.fetch, Offset(staged.offset), 0, Offset(staged.offset))
            if not read:
                raise KafkaFailure(Error.KAFKA_STORAGE_ERROR, f"the staged batch at {staged.offset} is not in the log")
            stored = read[0]
        try:
            _, body = read_control(stored)
            return bytearray(body[: batch_size(body)])
        except BadBatch as error:
            raise KafkaFailure(Error.KAFKA_STORAGE_ERROR, f"the staged batch at {staged.offset}: {error}") from error

    async def _until_applied(self, offset: int) -> None:
        if self._applied < offset and not self._stopped:
            applied = asyncio.Event()
            cancel = self._appliers.add(Offset(offset), applied.set)
            try:
                await applied.wait()
            finally:
                cancel()

    # Dropping. Only what can never be committed is dropped; the caller knows.

    def expired_stages(self) -> list[int]:
        """The producers whose stages here are older than this queue keeps them."""
        if not self.leads or not self.state.stages.open:
            return []
        return self.state.stages.expired(self._time.now() - self.settings.stage_expiry_ms)

    async def drop_stages(self, producers: Sequence[int]) -> None:
        """Drop what these have staged here, if there is something, and let them stage nothing more. Raises KafkaFailure."""
        self._require_applied()
        ended = self.state.stages.ended
        producers = [producer for producer in producers if producer not in ended]
        if not producers:
            return
        try:
            proposed = await self._runtime.propose(self._group, stage_drop_batch(producers), 1)
        except OperationFailed as error:
            raise failure_of(error) from error
        await self._until_applied(proposed.offset)


def _not_whole(producer: int, why: str) -> KafkaFailure:
    return KafkaFailure(Error.INVALID_TXN_STATE, f"the stage of producer {producer} cannot be committed: {why}")
