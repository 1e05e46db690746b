"""Commits of staged records, on a node: deciding them for clients, and publishing what is decided where this node leads.

The decision is one command in `@cluster` (`cluster.staged`). Everything after it follows from the metadata and the logs, so
whoever leads next goes on. See docs/adr/0006-staged-writes.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import Body, CallFailed, Calls
from quorate.broker.cluster.directory import Directory
from quorate.broker.cluster.service import Metadata, new_token
from quorate.broker.cluster.staged import BY_OTHERS, CommitId
from quorate.broker.cluster.state import Refused
from quorate.broker.cluster.values import CLUSTER_GROUP
from quorate.broker.kafka.backend import KafkaFailure, StageWish
from quorate.broker.node.replicas import Replicas
from quorate.broker.partition.partition import Partition
from quorate.broker.partition.staging import StagePart
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.clock.kernel import TimeSource
from quorate.consensus.core import GroupId, Millis, NodeId
from quorate.consensus.runtime import MultiRaft, OperationFailed

_log = logging.getLogger(__name__)

_CALL_S = 5.0
_LOOK_AGAIN_S = 0.02
_PAUSE_S = 0.1
"""Before something is tried again that did not work."""
_JUDGED_WITHIN_MS = 10 * 60 * 1000
"""A commit that is judged later than this after it was begun is refused: it might name what was dropped meanwhile."""
_AT_ONCE = 1_000
"""Stages that are dropped by one command."""
_KAFKA = "kafka:"
"""Before the number of an error of Kafka's in a refusal between nodes."""

Parts = dict[GroupId, list[StagePart]]


class Committer:
    """One node's. Call `poke` when metadata or leaders have changed; `run` publishes for ever."""

    def __init__(
        self,
        runtime: MultiRaft,
        metadata: Metadata,
        calls: Calls,
        directory: Directory,
        replicas: Replicas,
        time: TimeSource,
        now: Callable[[], Millis],
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._calls = calls
        self._directory = directory
        self._replicas = replicas
        self._time = time
        self._now = now
        self._poked = asyncio.Event()
        self._told = asyncio.Event()
        self._busy: set[GroupId] = set()
        """Groups that are being published."""
        self._done: dict[CommitId, set[GroupId]] = {}
        """What was published here and `@cluster` has not been told yet."""
        self._waiting: dict[CommitId, list[asyncio.Event]] = {}
        calls.on("look-staged", self._asked_to_look)
        calls.on("check-stages", self._asked_to_check)
        calls.on("drop-stages", self._asked_to_drop)

    # For clients, on any node.

    async def commit(self, application: str, batch: int, wishes: Sequence[StageWish], timeout_s: float) -> tuple[bool, bool]:
        """Commit an application's batch, unless it was committed before. Whether it is made of these stages, and whether all
        of it is visible already. Raises KafkaFailure: nothing is committed, unless it is not `definite`.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        _check(application, batch, wishes)
        digest = _digest(wishes)
        try:
            seen = await self._look(application, deadline)
            if batch <= int(seen["batch"]):
                ours = (batch, digest) == (seen["batch"], seen["digest"])
            else:
                parts = self._resolve(wishes)
                await self._check_all(parts, deadline)
                command = c.CommitStages(
                    token=new_token(),
                    application=application,
                    batch=batch,
                    digest=digest,
                    parts=tuple((group, tuple(part.producer for part in staged)) for group, staged in parts.items()),
                    until_ms=int(seen["now"]) + _JUDGED_WITHIN_MS,
                )
                ours = await self._metadata.change(command, _left(deadline)) != BY_OTHERS
        except Refused as refusal:
            raise _failure_of(refusal) from refusal
        except CallFailed as failure:
            raise KafkaFailure(Error.REQUEST_TIMED_OUT, str(failure), definite=failure.definite) from failure
        return ours, await self._until_published(application, batch, deadline)

    async def drop(self, wishes: Sequence[StageWish], timeout_s: float) -> None:
        """See to it that these stages can never be committed, and drop them as far as their leaders can be reached; the rest
        expires. Raises KafkaFailure, if some of them are committed already: those stay.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        producers = [wish.producer for wish in wishes]
        try:
            await self._bar(producers, timeout_s)
        except Refused as refusal:
            raise _failure_of(refusal) from refusal
        except CallFailed as failure:
            raise KafkaFailure(Error.REQUEST_TIMED_OUT, str(failure), definite=failure.definite) from failure
        barred = self._metadata.state.staged.dropped
        parts = self._resolve([wish for wish in wishes if wish.producer in barred], strict=False)
        dropping = [self._drop_at(group, [one.producer for one in staged], deadline) for group, staged in parts.items()]
        await asyncio.gather(*dropping)
        kept = [producer for producer in producers if producer not in barred]
        if kept:
            raise KafkaFailure(Error.INVALID_TXN_STATE, f"the stage of producer {kept[0]} is part of a commit")

    async def _look(self, application: str, deadline: float) -> Body:
        """What `@cluster` knows of an application now, and its time. Raises CallFailed."""
        return await self._insist(lambda: self._metadata.leader, "look-staged", {"application": application}, deadline)

    def _resolve(self, wishes: Sequence[StageWish], *, strict: bool = True) -> Parts:
        """By group. Raises KafkaFailure for what there is not, if `strict`."""
        queues, parts = self._metadata.state.queues, Parts()
        for producer, staged in wishes:
            for one in staged:
                queue = queues.get(one.topic)
                if queue is not None and 0 <= one.partition < len(queue.partitions):
                    group = queue.partitions[one.partition].group
                    parts.setdefault(group, []).append(StagePart(producer, one.batches, one.records))
                elif strict:
                    raise KafkaFailure(
                        Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {one.partition} of {one.topic!r}"
                    )
        return parts

    async def _check_all(self, parts: Parts, deadline: float) -> None:
        """Have every leader say that its stages are whole. Raises KafkaFailure, CallFailed."""
        checks = [
            self._insist(self._leader_of(group), "check-stages", {"group": group, "parts": staged}, deadline)
            for group, staged in parts.items()
        ]
        for outcome in await asyncio.gather(*checks, return_exceptions=True):
            if isinstance(outcome, CallFailed) and outcome.code.startswith(_KAFKA):
                raise KafkaFailure(int(outcome.code.removeprefix(_KAFKA)), str(outcome))
            if isinstance(outcome, BaseException):
                raise outcome

    def _leader_of(self, group: GroupId) -> Callable[[], NodeId | None]:
        def look() -> NodeId | None:
            found = self._directory.leader_of(group, self._now())
            return found.node if found is not None else None

        return look

    async def _insist(self, leader: Callable[[], NodeId | None], verb: str, body: Body, deadline: float) -> Body:
        """Ask a leader something that decides nothing, again and again until it answers or is sure. Raises CallFailed."""
        failure = CallFailed("no-leader", f"nobody leads just now who could answer {verb!r}", definite=True)
        while True:
            node = leader()
            if node is not None:
                try:
                    return await self._calls.ask(node, verb, body, min(_CALL_S, _left(deadline)))
                except CallFailed as error:
                    failure = error
                    if error.code.startswith(_KAFKA):
                        raise
            if asyncio.get_running_loop().time() + _LOOK_AGAIN_S > deadline:
                raise CallFailed(failure.code, str(failure), definite=True)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _until_published(self, application: str, batch: int, deadline: float) -> bool:
        """Wait until a commit is visible as far as this node knows; whether that is so in time."""
        staged = self._metadata.state.staged
        waits, event = self._waiting.setdefault((application, batch), []), asyncio.Event()
        waits.append(event)
        try:
            while not staged.is_published(application, batch):
                event.clear()
                async with asyncio.timeout_at(deadline):
                    await event.wait()
                staged = self._metadata.state.staged
        except TimeoutError:
            return False
        finally:
            waits.remove(event)
            if not waits:
                self._waiting.pop((application, batch), None)
        return True

    # For other nodes, on a leader.

    async def _asked_to_look(self, node: NodeId, body: Body) -> Body:
        try:
            await self._runtime.read_index(CLUSTER_GROUP)
            known = self._metadata.state.staged.applications.get(str(body["application"]))
        except KeyError as error:
            raise CallFailed("bad-request", f"a look that cannot be read: {error}", definite=True) from error
        except OperationFailed as error:
            raise CallFailed("not-leading", str(error), definite=True) from error
        batch, digest = (-1, "") if known is None else known[:2]
        # Log time may be ahead of the wall clock, and a commit is judged by log time.
        return {"batch": batch, "digest": digest, "now": max(self._time.now(), self._metadata.state.stamp)}

    async def _asked_to_check(self, node: NodeId, body: Body) -> Body:
        return await self._with_partition(body, lambda one: one.check_stages([StagePart(*part) for part in body["parts"]]))

    async def _asked_to_drop(self, node: NodeId, body: Body) -> Body:
        return await self._with_partition(body, lambda one: one.drop_stages([int(p) for p in body["producers"]]))

    async def _with_partition(self, body: Body, act: Callable[[Partition], Awaitable[None]]) -> Body:
        try:
            partition = self._replicas.partitions.get(GroupId(int(body["group"])))
            if partition is None:
                raise CallFailed("not-leading", "the partition is not here", definite=True)
            await act(partition)
        except (KeyError, TypeError, ValueError) as error:
            raise CallFailed("bad-request", f"a request that cannot be read: {error}", definite=True) from error
        except KafkaFailure as failure:
            # Anything but a verdict on the stages themselves passes: another leader, or this one later, may answer.
            code = f"{_KAFKA}{int(failure.error)}" if failure.error == Error.INVALID_TXN_STATE else "not-now"
            raise CallFailed(code, failure.message, definite=failure.definite) from failure
        return {}

    # Publishing, on leaders.

    def poke(self) -> None:
        """The metadata or the leaders may have changed."""
        if self._metadata.state.staged.pending:
            self._poked.set()
        for (application, batch), waits in self._waiting.items():
            if self._metadata.state.staged.is_published(application, batch):
                for event in waits:
                    event.set()

    async def run(self) -> None:
        """Publish what is decided, wherever it is led here, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_published())
            while True:
                await self._poked.wait()
                self._poked.clear()
                for group in self._metadata.state.staged.groups() - self._busy:
                    if group in self._replicas.led and self._next(group) is not None:
                        self._busy.add(group)
                        tasks.create_task(self._publish(group))

    def _next(self, group: GroupId) -> tuple[CommitId, tuple[int, ...]] | None:
        """The oldest commit of which this group has something to publish."""
        waits = self._metadata.state.staged.of_group(group)
        return next((one for one in waits if group not in self._done.get(one[0], ())), None)

    async def _publish(self, group: GroupId) -> None:
        """Publish all that there is for a group, in the order in which it was decided."""
        try:
            while (found := self._next(group)) is not None and group in self._replicas.led:
                partition = self._replicas.partitions.get(group)
                if partition is None:
                    break
                commit, producers = found
                for producer in producers:
                    await partition.publish(producer)
                self._done.setdefault(commit, set()).add(group)
                self._told.set()
        except KafkaFailure as failure:
            _log.info("group %s: what is committed is published later: %s", group, failure)
            await asyncio.sleep(_PAUSE_S)
        finally:
            self._busy.discard(group)
        self._poked.set()

    async def _tell_published(self) -> None:
        """Say in `@cluster` what was published here; what came to an end meanwhile, in one go."""
        while True:
            await self._told.wait()
            self._told.clear()
            done = {commit: set(groups) for commit, groups in self._done.items()}
            commits = tuple((*commit, tuple(sorted(groups))) for commit, groups in done.items())
            if not commits:
                continue
            try:
                await self._metadata.change(c.StagesPublished(token=new_token(), commits=commits), _CALL_S)
            except (CallFailed, Refused) as error:
                _log.info("what was published is told later: %s", error)
                await asyncio.sleep(_PAUSE_S)
                self._told.set()
                continue
            for commit, groups in done.items():
                self._done[commit] -= groups
                if not self._done[commit]:
                    del self._done[commit]

    # Dropping.

    async def _bar(self, producers: Sequence[int], timeout_s: float) -> None:
        """Decide that these can never be committed, those excepted that are already. Raises Refused, CallFailed."""
        await self._metadata.change(c.DropStages(token=new_token(), producers=tuple(dict.fromkeys(producers))), timeout_s)

    async def _drop_at(self, group: GroupId, producers: list[int], deadline: float) -> None:
        with suppress(CallFailed):
            await self._insist(self._leader_of(group), "drop-stages", {"group": group, "producers": producers}, deadline)

    async def expire(self, partition: Partition) -> None:
        """Drop what is too old in a partition that is led here, once `@cluster` has decided that no commit can name it."""
        expired = partition.expired_stages()[:_AT_ONCE]
        if not expired:
            return
        try:
            await self._bar(expired, _CALL_S)
            barred = self._metadata.state.staged.dropped
            await partition.drop_stages([producer for producer in expired if producer in barred])
        except (CallFailed, Refused, KafkaFailure) as error:
            _log.info("expired stages are dropped later: %s", error)


def _left(deadline: float) -> float:
    return max(0.01, deadline - asyncio.get_running_loop().time())


def _digest(wishes: Sequence[StageWish]) -> str:
    """What tells one attempt from another: all of its stages, in any order."""
    said = sorted([producer, sorted(map(list, parts))] for producer, parts in wishes)
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()[:32]


def _check(application: str, batch: int, wishes: Sequence[StageWish]) -> None:
    """Raise KafkaFailure for what can be no commit."""
    if not 0 < len(application) <= c.MAX_APPLICATION_ID:
        raise KafkaFailure(
            Error.INVALID_REQUEST, f"an application id has 1 to {c.MAX_APPLICATION_ID} characters, not {len(application)}"
        )
    if batch < 0:
        raise KafkaFailure(Error.INVALID_REQUEST, f"batch {batch}: batches are counted from 0 on")
    seen: set[tuple[int, str, int]] = set()
    for producer, parts in wishes:
        for one in parts:
            place = (producer, one.topic, one.partition)
            name = f"the stage of producer {producer} in {one.topic!r}/{one.partition}"
            if place in seen:
                raise KafkaFailure(Error.INVALID_REQUEST, f"{name} is named twice")
            if producer < 0 or one.batches < 1 or one.records < 1:
                raise KafkaFailure(Error.INVALID_REQUEST, f"{name}: {one.batches} batches, {one.records} records")
            seen.add(place)


_CODES = {
    "unknown-queue": Error.UNKNOWN_TOPIC_OR_PARTITION,
    "stage-dropped": Error.INVALID_TXN_STATE,
    "stage-committed": Error.INVALID_TXN_STATE,
    "too-late": Error.REQUEST_TIMED_OUT,
}


def _failure_of(refusal: Refused) -> KafkaFailure:
    return KafkaFailure(_CODES.get(refusal.code, Error.INVALID_REQUEST), str(refusal))
