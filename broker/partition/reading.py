"""Reading a partition: committed batches and nothing else, and only on a leader that knows how far the commit is.

From memory where they are, without copies; else from the store, on the reader threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from quorate.broker.partition.stages import as_consumers_see
from quorate.broker.partition.state import PartitionState
from quorate.broker.partition.values import Closed, EpochEnd, Fetched, KafkaFailure, ListedOffset, failure_of
from quorate.broker.partition.waiting import Waiting
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.batch.control import encode_control
from quorate.consensus.batch.header import last_offset, max_timestamp
from quorate.consensus.core import BatchKind, GroupId, Millis, Offset
from quorate.consensus.core.types import NO_OFFSET, NO_TERM, Buffer, Term
from quorate.consensus.runtime import MultiRaft, OperationFailed
from quorate.consensus.storage.api import LogStore, StorageError

_log = logging.getLogger(__name__)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Questions for an offset that are no times."""
_NEVER = 1 << 62
_NOTHING = ListedOffset(-1, -1, -1)
_SOME_BYTES = 1 << 62
_CLOSING_S = (0.005, 0.25)
"""How often a wait for closed time looks again, at least and at most."""


class Reading:
    """The reading half of `Partition`. Invariant: reads are served only while it leads and `_commit >= _term_start`, so the
    high watermark never goes back for a client that goes from leader to leader."""

    def __init__(self, runtime: MultiRaft, group: GroupId, store: LogStore) -> None:
        self._runtime = runtime
        self._group = group
        self._store = store
        self.state = PartitionState()
        self.leads = False
        self.term: Term = NO_TERM
        self._term_start: Offset = NO_OFFSET
        self._commit: Offset = NO_OFFSET
        self._applied: Offset = NO_OFFSET
        self._stopped = False
        self._pollers = Waiting()
        self._appliers = Waiting()

    @property
    def log_start(self) -> int:
        """The first offset that clients may read."""
        return self.state.log_start

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed, as far as is known here."""
        return self._commit + 1

    def _not_leading(self) -> KafkaFailure:
        return KafkaFailure(Error.NOT_LEADER_OR_FOLLOWER, "this replica does not lead")

    def _require_current(self, epoch: int) -> None:
        """Raise KafkaFailure unless this leader may serve a client that believes in `epoch` (-1: in none)."""
        if not self.leads or self._commit < self._term_start:
            raise self._not_leading()
        if epoch not in (-1, self.term):
            if epoch < self.term:
                raise KafkaFailure(Error.FENCED_LEADER_EPOCH, f"epoch {epoch} is over, this is {self.term}")
            raise KafkaFailure(Error.UNKNOWN_LEADER_EPOCH, f"epoch {epoch} is not known here, this is {self.term}")

    # Batches.

    def fetch(self, offset: int, max_bytes: int, epoch: int = -1, at_least_one: bool = True) -> Fetched | Awaitable[Fetched]:
        """Committed batches from the one that holds `offset` on, as stored, control batches too: clients skip those.

        Up to `max_bytes`; with `at_least_one` the first comes whatever its size. Never waits for new ones: see `wait`.
        """
        self._require_current(epoch)
        start = self.state.log_start
        try:
            commit, batches = self._runtime.read_committed(self._group, Offset(offset), max_bytes)
        except OperationFailed as error:
            raise failure_of(error) from error
        if not start <= offset <= commit + 1:
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, f"{offset} is not in {start}..{commit + 1}")
        if batches is None:
            return self._fetch_stored(Offset(offset), max_bytes, commit, at_least_one)
        if not batches:
            return Fetched((), 0, offset, commit + 1, start)
        records = [batch.data if batch.kind is BatchKind.DATA else encode_control(batch) for batch in batches]
        return self._fetched(records, offset, batches[-1].last + 1, commit, max_bytes, at_least_one)

    async def _fetch_stored(self, offset: Offset, max_bytes: int, commit: Offset, at_least_one: bool) -> Fetched:
        records = await self._read(self._store.fetch, offset, max_bytes, commit)
        if not records or offset < self.state.log_start:
            # It was deleted meanwhile.
            raise KafkaFailure(Error.OFFSET_OUT_OF_RANGE, f"{offset} is not in the log any more")
        following = last_offset(records[-1]) + 1
        return self._fetched(list[Buffer](records), offset, following, commit, max_bytes, at_least_one)

    def _fetched(
        self, records: list[Buffer], offset: int, following: int, commit: Offset, max_bytes: int, at_least_one: bool
    ) -> Fetched:
        if offset <= self.state.stages.last:
            records = [as_consumers_see(record) for record in records]
        if not at_least_one and len(records[0]) > max_bytes:
            return Fetched((), 0, offset, commit + 1, self.state.log_start)
        return Fetched(records, sum(map(len, records)), following, commit + 1, self.state.log_start)

    async def _read(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Ask the store. Raises KafkaFailure."""
        try:
            return await self._runtime.in_reader(function, *args)
        except StorageError as error:
            _log.error("group %s: a read failed: %s", self._group, error)
            raise KafkaFailure(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        except OperationFailed as error:
            raise failure_of(error) from error

    def wait(self, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, in a later step of the loop, when `offset` is committed or this replica does not lead.

        The result takes the wish back; after `wake` it does nothing.
        """
        cancel = self._pollers.add(offset, wake)
        if not self.leads:
            self._pollers.all()
        elif offset <= self._commit:
            self._pollers.reached(self._commit)
        return cancel

    # Offsets.

    def list_offset(
        self, timestamp: int, epoch: int = -1, committed_only: bool = True
    ) -> ListedOffset | Awaitable[ListedOffset]:
        """The first offset whose log-append time is at or after `timestamp`: all records of a batch have the same, so it is
        a batch's first. Or the log's end, start, or the offset with the latest time. There are no transactions, so
        `committed_only` changes nothing."""
        if self.leads and self._commit < self._term_start:
            return self._list_later(timestamp, epoch)
        self._require_current(epoch)
        if timestamp == LATEST:
            return self._latest(epoch)
        if timestamp == EARLIEST:
            return ListedOffset(self.log_start, -1, self._epoch_of(self.log_start))
        if timestamp == MAX_TIMESTAMP:
            return self._find(self.state.stamp) if self.state.data_end > self.log_start else _NOTHING
        if timestamp < 0:
            return _NOTHING
        return self._find(timestamp)

    async def _latest(self, epoch: int) -> ListedOffset:
        """The log's end as of now: whoever was deposed and has not heard of it cannot say, and is found out here."""
        try:
            end = await self._runtime.read_index(self._group)
        except OperationFailed as error:
            raise failure_of(error) from error
        self._require_current(epoch)
        return ListedOffset(max(end, self._commit) + 1, -1, self.term)

    async def _list_later(self, timestamp: int, epoch: int) -> ListedOffset:
        """A leader that is about to know what is committed is waited for: some clients do not ask again."""
        known = asyncio.Event()
        self._pollers.add(self._term_start, known.set)
        await known.wait()
        self._require_current(epoch)
        listed = self.list_offset(timestamp, epoch)
        return listed if isinstance(listed, ListedOffset) else await listed

    async def _find(self, timestamp: int) -> ListedOffset:
        found = await self._read(self._store.find_time, Millis(timestamp))
        if found is None or found[0] > self._commit:
            found = self._find_unstored(timestamp)
        if found is None:
            return _NOTHING
        # Log time never falls, so everything after a deleted batch is at least as late.
        offset = max(found[0], self.log_start)
        return ListedOffset(offset, found[1], self._epoch_of(offset))

    def _find_unstored(self, timestamp: int) -> tuple[Offset, Millis] | None:
        """Among what is committed and not on this disk yet."""
        try:
            stable = Offset(self._runtime.status(self._group).stable + 1)
            _, batches = self._runtime.read_committed(self._group, stable, _SOME_BYTES)
        except OperationFailed as error:
            raise failure_of(error) from error
        for batch in batches or ():
            if batch.kind is BatchKind.DATA and max_timestamp(batch.data) >= timestamp:
                return batch.base, Millis(max_timestamp(batch.data))
        return None

    def _epoch_of(self, offset: int) -> int:
        try:
            term = self._runtime.term_at(self._group, Offset(offset))
        except OperationFailed as error:
            raise failure_of(error) from error
        return self.term if term is None else term

    # Closed time.

    async def closed_time(self, at_least: int = -1, max_wait_s: float = 0.0) -> Closed:
        """A time that is closed: no later append, of this leader or of another, has a stamp at or below it. Raises
        KafkaFailure.

        Waits until that is `at_least`, but no longer than `max_wait_s`, and then tells what there is. Time closes by itself,
        without appends, where the clock's uncertainty is known; else only appends that are committed close what is before.
        """
        deadline = asyncio.get_running_loop().time() + max_wait_s
        while (missing := at_least - self._close()) > 0:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            least, most = _CLOSING_S
            await self._until_deposed(min(left, most, max(least, missing / 1000)))
        closed = self._close()
        end = await self._latest(-1)
        return Closed(closed, end.offset)

    def _close(self) -> Millis:
        self._require_current(-1)
        try:
            return self._runtime.close_time(self._group, Millis(self.state.stamp))
        except OperationFailed as error:
            raise failure_of(error) from error

    async def _until_deposed(self, timeout_s: float) -> None:
        """Wait, but no longer than this replica leads."""
        over = asyncio.Event()
        cancel = self._pollers.add(Offset(_NEVER), over.set)
        try:
            async with asyncio.timeout(timeout_s):
                await over.wait()
        except TimeoutError:
            pass
        finally:
            cancel()

    def end_of_epoch(self, epoch: int, current_epoch: int = -1) -> EpochEnd:
        """Where an epoch ended: for a consumer that wants to know whether what it read is still the log."""
        self._require_current(current_epoch)
        if not 0 <= epoch <= self.term:
            return EpochEnd(-1, -1)
        try:
            runs = self._runtime.term_runs(self._group)
        except OperationFailed as error:
            raise failure_of(error) from error
        found, end = -1, self.high_watermark
        for first, term in runs:
            if term > epoch:
                end = first
                break
            found = term
        # Everything of that epoch and before it is deleted: it ended where the log begins now.
        return EpochEnd(found if found >= 0 else epoch, end)
