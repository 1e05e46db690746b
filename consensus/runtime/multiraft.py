"""`MultiRaft`: all replicas of one node, as the rest of the node uses them.

Coroutines for callers; `submit` for those who append so much that a future for each batch would cost too much.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar, TypeVarTuple

from quorate.consensus.clock.hybrid import HybridClock
from quorate.consensus.clock.kernel import SystemTime, TimeSource
from quorate.consensus.core import (
    Configuration,
    GroupId,
    Millis,
    Node,
    NodeId,
    NodeMessage,
    Offset,
    Raft,
    RaftSettings,
    Refused,
    ReplicaId,
    Term,
)
from quorate.consensus.core.types import Batch, Randomness
from quorate.consensus.runtime.applying import pack_state, unpack_state
from quorate.consensus.runtime.counters import Counters
from quorate.consensus.runtime.driver import Driver, OnStopped
from quorate.consensus.runtime.errors import NoSuchGroup, OperationFailed, ReplicaStopped, translate
from quorate.consensus.runtime.group import FollowerStatus, Group, GroupStatus, StateMachine, Watcher
from quorate.consensus.runtime.proposals import Done, OnLocal, Proposal, Proposed
from quorate.consensus.runtime.settings import RuntimeSettings
from quorate.consensus.runtime.stamping import Writable
from quorate.consensus.storage.api import LogStore
from quorate.consensus.storage.writer import WriterPool
from quorate.consensus.transport import Address, Identity, Network, Security, TransportSettings
from quorate.consensus.transport.network import Admit, OnRefused

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK_AGAIN_S = 0.005
_EVERYTHING = 1 << 62
_TRANSFERS_AT_ONCE = 32
"""Each costs a synced vote on other nodes."""


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Everything that a node's runtime is made with."""

    identity: Identity
    listen: Address
    time: TimeSource = field(default_factory=SystemTime)
    """Where log time comes from."""
    raft: RaftSettings = field(default_factory=RaftSettings)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    transport: TransportSettings = field(default_factory=TransportSettings)
    security: Security | None = None
    randomness: Randomness | None = None
    on_stopped: OnStopped | None = None
    """Called with a group and the reason when its replica here has stopped for good."""
    on_note: Callable[[NodeId, bytes], None] | None = None
    """Called with a node and what it told this one (see `tell`)."""
    on_peer: Callable[[NodeId, bool], None] | None = None
    """Called with a node when the connection with it was made, or broke (False)."""
    admit: Admit | None = None
    """Asked before a node is taken in: see `Network`."""
    on_refused: OnRefused | None = None
    """Called when another node does not want this one."""


class MultiRaft:
    """The replicas of one node. Use it as an async context manager, or call `start` and `close`."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._random: Randomness = config.randomness if config.randomness is not None else random.Random()
        self._driver: Driver | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._address: Address | None = None
        self._closing = False

    # Life.

    async def start(self) -> None:
        """Listen for peers and begin to run."""
        config, settings = self._config, self._config.runtime
        loop = asyncio.get_running_loop()
        self._readers = ThreadPoolExecutor(settings.reader_threads, thread_name_prefix="log-reader")
        now = Millis(int(loop.time() * 1000))
        node = Node(config.identity.node, boot=config.identity.boot, beat_ms=settings.beat_ms, now=now)
        network = Network(
            config.identity,
            self._heard,
            config.transport,
            config.security,
            self._peer_changed,
            self.drained,
            config.on_note,
            config.admit,
            config.on_refused,
        )
        pool = WriterPool(loop.call_soon_threadsafe, settings.writer_threads)
        self._driver = Driver(node, network, pool, self._readers, settings, self._stopped)
        self._address = await network.listen(config.listen)

    async def hand_over(self) -> None:
        """Give every group that is led here to its best follower, and go on as a follower. A group without one stays."""
        if self._driver is not None and not self._closing:
            await self._hand_over_all(self._driver)

    async def close(self, *, hand_over: bool = True) -> None:
        """Hand leadership over, stop taking part, finish what is being written, and let go of everything."""
        driver = self._driver
        if driver is None or self._closing:
            return
        self._closing = True
        if hand_over:
            await self._hand_over_all(driver)
        driver.close()
        await driver.network.close()
        await asyncio.to_thread(driver.pool.close)
        for group in driver.groups.values():
            await asyncio.to_thread(group.store.close)
        if self._readers is not None:
            await asyncio.to_thread(self._readers.shutdown)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def address(self) -> Address:
        """Where this node listens for its peers."""
        if self._address is None:
            raise RuntimeError("the runtime was not started")
        return self._address

    def set_peer(self, node: NodeId, address: Address) -> None:
        """There is a node at this address."""
        self._running().network.set_peer(node, address)

    def remove_peer(self, node: NodeId, why: str = "") -> None:
        """Have nothing more to do with a node, and tell it why, if that is said."""
        self._running().network.remove_peer(node, why)

    def tell(self, node: NodeId, note: bytes) -> bool:
        """Send a node bytes that are not Raft's business; whether they were sent. Like any message they may be lost."""
        return self._running().network.tell(node, note)

    async def add_group(
        self,
        group: GroupId,
        replica: ReplicaId,
        store: LogStore,
        machine: StateMachine | None = None,
        settings: RaftSettings | None = None,
        clock_bound_ms: int | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """Run a replica on its store, which from now on belongs to the runtime. Raises StorageError, ValueError.

        With `clock_bound_ms` nothing is appended here while the clock may be further off than that.
        """
        driver = self._running()
        restored = await asyncio.to_thread(store.restore)
        reached, data = await asyncio.to_thread(store.load_state)
        raft = Raft(group, replica, restored, settings or self._config.raft, self._random, driver.node.clock)
        driver.node.advance(driver.now())
        applied, state = unpack_state(reached, data)
        if machine is not None and data:
            machine.load(applied, state)
        driver.add(Group(raft, store, machine, applied, HybridClock(self._config.time, clock_bound_ms), watcher))

    async def remove_group(self, group: GroupId) -> None:
        """Stop a replica and close its store. What is on disk stays there."""
        driver, found = self._running(), self._group(group)
        driver.remove(found)
        await asyncio.to_thread(driver.pool.forget, found.store)
        await asyncio.to_thread(found.store.close)

    # Operations.

    def submit(self, group: GroupId, data: Writable, count: int, done: Done, on_local: OnLocal | None = None) -> None:
        """Propose a RecordBatch of `count` offsets; `done` is told the outcome, on the loop's thread.

        `data` is patched in place and must not be touched before that. Raises OperationFailed, and then nothing happened.
        `on_local` is told, at most once and never after `done`, that this leader's own disk has the batch: no promise
        that it stays, for those who ask for less than a commit. `done` still comes.
        """
        driver = self._driver
        found = driver.groups.get(group) if driver is not None else None
        if driver is None or found is None or self._closing:
            raise self._why_not(group)
        driver.submit(found, Proposal(data, count, done, on_local))

    def drained(self) -> None:
        """Say that what was submitted together is all there: when little goes on, it is acted on at once."""
        if self._driver is not None:
            self._driver.drained()

    async def propose(self, group: GroupId, data: Writable, count: int) -> Proposed:
        """Append a RecordBatch; returns when it is committed. Raises OperationFailed; see `definite`.

        If the caller is cancelled the batch may still be committed.
        """
        future: asyncio.Future[Proposed] = asyncio.get_running_loop().create_future()
        self.submit(group, data, count, _resolver(future))
        return await future

    async def read_index(self, group: GroupId) -> Offset:
        """The offset of a linearizable read: everything acknowledged before this call is at or below it, and applied."""
        driver, found = self._running(), self._group(group)
        future: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()
        try:
            found.reads[found.raft.read_index()] = _resolver(future)
        except Refused as error:
            raise translate(error) from error
        driver.wake()
        return await future

    def close_time(self, group: GroupId, committed: Millis) -> Millis:
        """A time at or below which this replica stamps nothing any more; `committed` is a stamp in the committed log.

        It is closed for all, and may be told, only after a `read_index` that was asked for later has been answered: that
        confirms that this replica led. And only by a leader that has committed something in its term: what it has from
        leaders before may still be committed, at any time.
        """
        found = self._group(group)
        return found.clock.closed(committed, found.proposals.oldest_stamp())

    async def transfer(self, group: GroupId, to: ReplicaId) -> None:
        """Hand leadership of a group over. Returns when `to` leads; raises Busy if it does not take it in time."""
        driver, found = self._running(), self._group(group)
        try:
            found.raft.transfer(to)
        except Refused as error:
            raise translate(error) from error
        driver.wake()
        await self._until(found, lambda: found.raft.leader == to, found.raft.settings.election_ms / 1000)

    def campaign(self, group: GroupId) -> None:
        """Try to lead a group at once, without waiting for its leader to be silent; a working leader keeps its place."""
        driver, found = self._running(), self._group(group)
        if not found.raft.leader:
            found.raft.campaign()
            driver.wake()

    async def change_members(
        self, group: GroupId, voters: Collection[ReplicaId], learners: Collection[ReplicaId] = ()
    ) -> Proposed:
        """Begin a change of members; returns when its first step is committed. A joint change is left by itself."""
        driver, found = self._running(), self._group(group)
        future: asyncio.Future[Proposed] = asyncio.get_running_loop().create_future()
        proposal = Proposal(bytearray(), 1, _resolver(future))
        try:
            batch = found.raft.change_members(voters, learners)
        except Refused as error:
            raise translate(error) from error
        proposal.base, proposal.last, proposal.term = batch.base, batch.last, batch.term
        found.proposals.place(proposal)
        driver.wake()
        return await future

    async def compact(self, group: GroupId, offset: Offset) -> None:
        """Forget the log up to `offset`, a batch's end, once the state machine's own state is durable beyond it."""
        driver, found = self._running(), self._group(group)
        if found.machine is not None:
            applied, state = found.applied, found.machine.save()
            await asyncio.to_thread(found.store.save_state, applied, pack_state(applied, state))
            offset = min(offset, applied)
        try:
            found.raft.compact(offset)
        except Refused as error:
            raise translate(error) from error
        driver.wake()

    def read_log(self, group: GroupId, first: Offset, max_bytes: int) -> tuple[Batch, ...]:
        """Committed batches from `first` on, as far as they are in memory; the store has the others."""
        found = self._group(group)
        batches = found.raft.log.slice(first, max_bytes) or ()
        commit = found.raft.log.commit
        return tuple(batch for batch in batches if batch.last <= commit)

    def read_committed(self, group: GroupId, offset: Offset, max_bytes: int) -> tuple[Offset, tuple[Batch, ...] | None]:
        """The commit offset, and committed batches from the one that covers `offset` on, at least one if there is one.

        None instead of batches: they are not in memory, and the store has them. Nothing is copied.
        """
        log = self._group(group).raft.log
        commit, stable = log.commit, log.stable
        if offset > commit:
            return commit, ()
        batches = log.slice(offset, max_bytes)
        if batches is None:
            if offset <= stable:
                return commit, None
            # Inside a batch that this disk does not have yet. All of those are in memory.
            unstable = log.slice(Offset(stable + 1), _EVERYTHING) or ()
            batches = _whole_within(tuple(batch for batch in unstable if batch.last >= offset), max_bytes)
        if batches and batches[-1].last > commit:
            batches = tuple(batch for batch in batches if batch.last <= commit)
        return commit, batches

    def in_reader(self, function: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run something that reads a store, and blocks, on a reader thread."""
        if self._readers is None or self._closing:
            raise ReplicaStopped("the node is shutting down")
        return asyncio.get_running_loop().run_in_executor(self._readers, function, *args)

    def term_at(self, group: GroupId, offset: Offset) -> Term | None:
        """The term of an offset; None where the log does not reach."""
        return self._group(group).raft.log.terms.term_at(offset)

    def term_runs(self, group: GroupId) -> list[tuple[Offset, Term]]:
        """(first offset, term) of each run of equal terms above the log's start."""
        return self._group(group).raft.log.terms.runs()

    def configuration(self, group: GroupId) -> Configuration:
        """The members of a group, as the replica here has them."""
        return self._group(group).raft.configuration

    def settled(self, group: GroupId) -> bool:
        """Whether the members of a group are decided: their configuration is committed, and no change is half done."""
        raft = self._group(group).raft
        return not raft.configuration.joint and raft.log.history.current_offset <= raft.log.commit

    def followers(self, group: GroupId) -> dict[ReplicaId, FollowerStatus]:
        """The other members of a group that is led here, as their leader sees them; nobody, if it is led elsewhere."""
        return self._group(group).followers()

    def status(self, group: GroupId) -> GroupStatus:
        """How the replica of a group stands."""
        return self._group(group).status()

    @property
    def groups(self) -> list[GroupId]:
        """The groups that have a replica here."""
        return list(self._running().groups)

    @property
    def counters(self) -> Counters:
        """What happened since the start."""
        return self._running().counters

    @property
    def network(self) -> Network:
        """The peer connections, for status and metrics."""
        return self._running().network

    async def wait_for_leader(self, group: GroupId, timeout_s: float) -> ReplicaId:
        """Who leads the group, as soon as that is known here. Raises Busy if it is not in time."""
        found = self._group(group)
        await self._until(found, lambda: found.raft.leader != 0, timeout_s)
        return found.raft.leader

    # Inside.

    def _heard(self, message: NodeMessage) -> None:
        if self._driver is not None:
            self._driver.heard(message)

    def _peer_changed(self, node: NodeId, up: bool) -> None:
        if self._driver is not None:
            self._driver.peer_changed(node, up)
        if self._config.on_peer is not None:
            self._config.on_peer(node, up)

    def _stopped(self, group: GroupId, reason: str) -> None:
        if self._config.on_stopped is not None:
            self._config.on_stopped(group, reason)

    def _running(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("the runtime was not started")
        return self._driver

    def _group(self, group: GroupId) -> Group:
        found = self._running().groups.get(group)
        if found is None or self._closing:
            raise self._why_not(group)
        return found

    def _why_not(self, group: GroupId) -> OperationFailed:
        if self._closing:
            return ReplicaStopped("the node is shutting down")
        return NoSuchGroup(f"group {group} has no replica on this node")

    async def _until(self, group: Group, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait for a change of role, term or leader that makes `condition` true."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    group.watchers.append(watcher)
                    await watcher
        except TimeoutError as error:
            raise OperationFailed(f"group {group.raft.group}: no change of leadership in time") from error

    async def _hand_over_all(self, driver: Driver) -> None:
        """Give every group that is led here to its best follower, and wait for that, but not for ever."""
        connected = driver.network.connected
        to_go = [group for group in driver.groups.values() if group.leads]
        leaving: list[Group] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.runtime.shutdown_ms / 1000
        while loop.time() < deadline:
            # A transfer that is given up changes no role, so nobody would be woken by it: look again and again.
            leaving = [group for group in leaving if group.leads and group.raft.transfer_to]
            while to_go and len(leaving) < _TRANSFERS_AT_ONCE:
                group = to_go.pop()
                if _begin_transfer(group, connected):
                    leaving.append(group)
            if not leaving:
                return
            driver.wake()
            await asyncio.sleep(_LOOK_AGAIN_S)


def _whole_within(batches: tuple[Batch, ...], max_bytes: int) -> tuple[Batch, ...]:
    """As many of these as fit, at least one."""
    size = 0
    for count, batch in enumerate(batches):
        size += batch.size
        if count and size > max_bytes:
            return batches[:count]
    return batches


def _begin_transfer(group: Group, connected: Collection[NodeId]) -> bool:
    """Hand a group to its best follower, if there is one; whether that has begun."""
    heir = group.heir(connected)
    if heir is None:
        return False
    try:
        group.raft.transfer(heir)
    except Refused:
        return False
    return True


def _resolver(future: asyncio.Future[T]) -> Callable[[T | OperationFailed], None]:
    def done(outcome: T | OperationFailed) -> None:
        if future.done():
            return
        if isinstance(outcome, OperationFailed):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return done
