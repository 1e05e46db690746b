"""Where everything is, as far as is known: nodes, topics, leaders. Asked for again only when what is known has proved wrong.

However many operations fail at once on an old leader, they share one request for the new one, and the next follows no
earlier than a moment later. Not here: waiting until there is a leader (`core`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response, encode_request
from quorate.broker.protocol.kafka.errors import BadMessage, Error
from quorate.client.connection import Answer, Request
from quorate.client.errors import BadAnswer, ClientClosed, QuorateError, RequestFailed, UnknownTopic, Unreachable
from quorate.client.pool import Lane, Pool
from quorate.client.settings import ClientSettings
from quorate.client.values import Address, PartitionInfo, TopicInfo, TopicPartition

_APART_S: Final = 0.1
"""So far apart are two requests that nobody outside asked for."""
_PATIENCE_S: Final = 1.0
"""After so long the next node is asked too: the first may be alive and do nothing."""


class Leader(NamedTuple):
    """Who leads a partition."""

    node: int
    epoch: int
    address: Address


class _Known(NamedTuple):
    info: TopicInfo
    asked_at: float


class Metadata:
    """Belongs to one event loop."""

    def __init__(self, settings: ClientSettings, pool: Pool, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._pool = pool
        self._loop = loop
        self._nodes: dict[int, Address] = {}
        self._topics: dict[str, _Known] = {}
        self._last: Address | None = None
        self._bad: Address | None = None
        self._wanted: set[str] = set()
        self._round: asyncio.Future[None] | None = None
        self._rounds: asyncio.Task[None] | None = None
        self._next_round_at = 0.0
        self.reached = False
        """Whether any node has ever answered."""
        self.requests = 0
        """How often metadata were asked for, for tests."""

    def close(self) -> None:
        """Whoever waits is told."""
        if self._rounds is not None:
            self._rounds.cancel()
        if self._round is not None and not self._round.done():
            self._round.set_exception(ClientClosed())

    # What is known.

    async def leader(self, part: TopicPartition, after: float) -> Leader:
        """Who leads, as it was known at `after` (the loop's time) or later. Raises QuorateError, if only for now."""
        known = self._topics.get(part.topic)
        while known is None or known.asked_at < after:
            await self._refresh(part.topic)
            known = self._topics.get(part.topic)
        info = known.info
        if info.error == Error.UNKNOWN_TOPIC_OR_PARTITION:
            del self._topics[part.topic]
            raise UnknownTopic(part.topic)
        if info.error:
            del self._topics[part.topic]
            raise RequestFailed(info.error, f"topic {part.topic!r}")
        found = next((one for one in info.partitions if one.index == part.partition), None)
        if found is None:
            raise UnknownTopic(*part)
        address = self._nodes.get(found.leader)
        if found.leader < 0 or address is None:
            raise RequestFailed(found.error or Error.LEADER_NOT_AVAILABLE, f"{part}")
        return Leader(found.leader, found.epoch, address)

    def moved(self, part: TopicPartition, node: int, epoch: int) -> bool:
        """A node says who leads instead of it. Whether that is news, and the new leader can be asked."""
        known = self._topics.get(part.topic)
        if known is None or node not in self._nodes:
            return False
        partitions = list(known.info.partitions)
        for at, one in enumerate(partitions):
            if one.index == part.partition and one.epoch < epoch:
                partitions[at] = PartitionInfo(one.index, node, epoch)
                self._topics[part.topic] = _Known(replace(known.info, partitions=tuple(partitions)), self._loop.time())
                return True
        return False

    def addresses(self) -> list[Address]:
        """Nodes that may be asked about the cluster, the best first."""
        known = [*self._nodes.values(), *self._settings.addresses]
        random.shuffle(known)
        known.sort(key=lambda one: (one == self._bad, one != self._last, not self._pool.connected(one)))
        return list(dict.fromkeys(known))

    def failed(self, address: Address) -> None:
        """Whoever looks for any node should take another one."""
        self._bad = address

    # Asking.

    async def ask(self, names: Collection[str] | None) -> list[TopicInfo]:
        """Ask now, about all topics unless some are named."""
        asked_at = self._loop.time()
        self.requests += 1
        wanted = None if names is None else [{"name": name} for name in names]
        value = {"topics": wanted, "allow_auto_topic_creation": False}

        def encode(version: int) -> list[bytes]:
            return [encode_request(Api.METADATA, version, value)]

        request = Request(Api.METADATA, encode, self._settings.request_timeout_ms / 1000)
        address, answer = await self.ask_anybody(request, Lane.CONTROL)
        try:
            said = decode_response(Api.METADATA, answer.version, answer.body)
        except BadMessage as error:
            raise BadAnswer(str(address), str(error)) from error
        return self._learn(said, asked_at)

    async def ask_anybody(self, request: Request, lane: Lane) -> tuple[Address, Answer]:
        """Ask a node, another one if that fails, and another one beside it if that takes long. Raises QuorateError."""
        candidates = iter(self.addresses())
        asked: dict[asyncio.Task[Answer], Address] = {}
        failures: dict[Address, QuorateError] = {}
        try:
            while True:
                address = next(candidates, None)
                if address is not None:
                    asked[asyncio.create_task(self._pool.ask(address, request, lane))] = address
                elif not asked:
                    raise self._nobody(failures)
                patience_s = _PATIENCE_S if address is not None else None
                done, _ = await asyncio.wait(asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    address = asked.pop(task)
                    try:
                        answer = task.result()
                    except QuorateError as error:
                        failures[address] = error
                    else:
                        self._last, self.reached = address, True
                        return address, answer
        finally:
            for task in asked:
                task.cancel()

    def _nobody(self, failures: dict[Address, QuorateError]) -> QuorateError:
        for error in failures.values():
            # A server of another kind does not become one of ours.
            if not error.retriable:
                return error
        reasons = {str(address): getattr(error, "why", str(error)) for address, error in failures.items()}
        return Unreachable(tuple(map(str, self._settings.addresses)), reasons)

    def _learn(self, said: dict[str, Any], asked_at: float) -> list[TopicInfo]:
        self._nodes = {one["node_id"]: Address(one["host"], one["port"]) for one in said["brokers"]} or self._nodes
        infos = []
        for topic in said["topics"]:
            if topic.get("name") is None:
                continue
            info = self._newer(_topic_info(topic))
            infos.append(info)
            self._topics[info.name] = _Known(info, asked_at)
        return infos

    def _newer(self, info: TopicInfo) -> TopicInfo:
        """The answer, but with the leaders that are known already where the node that answered knows older ones."""
        known = self._topics.get(info.name)
        if known is None or known.info.id != info.id or info.error:
            return info
        epochs = {one.index: one for one in known.info.partitions}
        return replace(info, partitions=tuple(_later(one, epochs.get(one.index)) for one in info.partitions))

    # Rounds: what many wait for is asked for once.

    async def _refresh(self, name: str) -> None:
        self._wanted.add(name)
        if self._round is None:
            self._round = self._loop.create_future()
            self._round.add_done_callback(_retrieved)
        if self._rounds is None or self._rounds.done():
            self._rounds = self._loop.create_task(self._run())
        await asyncio.shield(self._round)

    async def _run(self) -> None:
        while self._round is not None:
            await asyncio.sleep(max(0.0, self._next_round_at - self._loop.time()))
            self._next_round_at = self._loop.time() + _APART_S
            names, self._wanted = self._wanted, set()
            waiting, self._round = self._round, None
            try:
                await self.ask(names)
            except QuorateError as error:
                waiting.set_exception(error)
            except asyncio.CancelledError:
                waiting.set_exception(ClientClosed())
                raise
            else:
                for name in names - self._topics.keys():
                    self._topics[name] = _Known(
                        TopicInfo(name, b"", (), Error.UNKNOWN_TOPIC_OR_PARTITION), self._loop.time()
                    )
                waiting.set_result(None)


def _retrieved(round_: asyncio.Future[None]) -> None:
    """Perhaps nobody waits any more: that is no error."""
    if not round_.cancelled():
        round_.exception()


def _later(one: PartitionInfo, other: PartitionInfo | None) -> PartitionInfo:
    return other if other is not None and other.epoch > one.epoch else one


def _topic_info(topic: dict[str, Any]) -> TopicInfo:
    partitions: Iterable[PartitionInfo] = (
        PartitionInfo(one["partition_index"], one["leader_id"], one.get("leader_epoch", -1), one["error_code"])
        for one in topic["partitions"]
    )
    return TopicInfo(
        topic["name"],
        topic.get("topic_id", b""),
        tuple(sorted(partitions, key=lambda one: one.index)),
        topic["error_code"],
        topic["is_internal"],
    )
