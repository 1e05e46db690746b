"""What all operations share: asking a node and understanding it, and finding the node that leads, again if need be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import decode_response, encode_request
from quorate.broker.protocol.kafka.errors import BadMessage, Error
from quorate.client.attempts import Attempts
from quorate.client.connection import Answer, Request
from quorate.client.errors import BadAnswer, QuorateError, RequestFailed, UnknownTopic
from quorate.client.metadata import Leader, Metadata
from quorate.client.pool import Lane, Pool
from quorate.client.settings import ClientSettings
from quorate.client.values import Address, TopicPartition

T = TypeVar("T")
Message = dict[str, Any]
Part = TopicPartition


@dataclass(frozen=True, slots=True)
class Core:
    """A client's parts."""

    settings: ClientSettings
    pool: Pool
    metadata: Metadata
    loop: asyncio.AbstractEventLoop

    @property
    def timeout_s(self) -> float:
        return self.settings.request_timeout_ms / 1000

    def attempts(self) -> Attempts:
        """Of an operation that is repeated, but for a shorter time as long as nobody has ever been reached."""
        settings, metadata = self.settings, self.metadata
        first_ms = min(settings.retry_ms, settings.connect_timeout_ms)
        return Attempts(lambda: settings.retry_ms if metadata.reached else first_ms)

    async def ask(
        self, address: Address, api: Api, value: Message, lane: Lane = Lane.ALONE, *, extra_s: float = 0.0
    ) -> Message:
        """One request by its table, and its answer. `extra_s`: how much longer it may take than others."""
        answer = await self.pool.ask(address, self.request(api, value, extra_s), lane)
        return self.understand(address, api, answer)

    async def ask_anybody(self, api: Api, value: Message, *, extra_s: float = 0.0) -> Message:
        """The same, of any node. What is not safe to ask for twice must not be asked so."""
        address, answer = await self.metadata.ask_anybody(self.request(api, value, extra_s), Lane.ALONE)
        return self.understand(address, api, answer)

    def request(self, api: Api, value: Message, extra_s: float) -> Request:
        return Request(api, lambda version: [encode_request(api, version, value)], self.timeout_s + extra_s)

    def understand(self, address: Address, api: Api, answer: Answer) -> Message:
        """An answer's fields."""
        try:
            return decode_response(api, answer.version, answer.body)
        except BadMessage as error:
            raise BadAnswer(str(address), f"{api.name}: {error}") from error

    async def at_any(self, what: Callable[[Address], Awaitable[T]], *, again: Callable[[QuorateError], bool]) -> T:
        """Do something at one node after the other, never at two at once, as long as `again` allows for it."""
        attempts = self.attempts()
        while True:
            address = self.metadata.addresses()[0]
            try:
                answer = await what(address)
            except QuorateError as error:
                self.metadata.failed(address)
                if not again(error):
                    attempts.give_up(error)
                await attempts.pause(error)
            else:
                self.metadata.reached = True
                return answer

    async def repeat(self, what: Callable[[], Awaitable[T]]) -> T:
        """Do something that is safe to repeat until it succeeds, or time is over."""
        attempts = self.attempts()
        while True:
            try:
                return await what()
            except QuorateError as error:
                await attempts.pause(error)

    async def at_leader(
        self,
        part: Part,
        what: Callable[[Leader], Awaitable[T]],
        *,
        again: Callable[[QuorateError], bool] = lambda _: True,
        attempts: Attempts | None = None,
    ) -> T:
        """Do something at the leader of a partition, and at the next one, as long as `again` allows for it."""
        attempts = attempts or self.attempts()
        after = 0.0
        while True:
            sent = False
            try:
                leader = await self.metadata.leader(part, after)
                sent = True
                return await what(leader)
            except Moved as moved:
                if not again(moved.error):
                    attempts.give_up(moved.error)
                attempts.judge(moved.error)
                if self.metadata.moved(part, moved.leader, moved.epoch):
                    continue
                after = self.loop.time()
                await attempts.pause(moved.error)
            except QuorateError as error:
                if sent and not again(error):
                    attempts.give_up(error)
                after = self.loop.time()
                await attempts.pause(error)

    async def at_leaders(
        self,
        parts: Collection[Part],
        what: Callable[[Address, Sequence[Part]], Awaitable[Mapping[Part, T | QuorateError]]],
    ) -> dict[Part, T]:
        """The same for many partitions, those with one leader in one request. Raises what one of them cannot get over."""
        found: dict[Part, T] = {}
        attempts, after = self.attempts(), 0.0
        missing = list(dict.fromkeys(parts))
        while missing:
            failures: dict[Part, QuorateError] = {}
            groups = await self._by_leader(missing, after, failures)
            answers = await asyncio.gather(*(_each(what, address, group) for address, group in groups.items()))
            for answer in answers:
                for part, one in answer.items():
                    if isinstance(one, QuorateError):
                        failures[part] = one
                    else:
                        found[part] = one
            missing = [part for part in missing if part not in found]
            after = self.loop.time()
            for part in missing:
                attempts.judge(failures[part])
            if missing:
                await attempts.pause(failures[missing[0]])
        return found

    async def _by_leader(
        self, parts: Sequence[Part], after: float, failures: dict[Part, QuorateError]
    ) -> dict[Address, list[Part]]:
        groups: dict[Address, list[Part]] = {}
        found = await asyncio.gather(*(self.metadata.leader(part, after) for part in parts), return_exceptions=True)
        for part, leader in zip(parts, found, strict=True):
            if isinstance(leader, QuorateError):
                failures[part] = leader
            elif isinstance(leader, BaseException):
                raise leader
            else:
                groups.setdefault(leader.address, []).append(part)
        return groups


class Moved(Exception):
    """A node refused because it does not lead, and says who does (-1: it does not know)."""

    def __init__(self, error: QuorateError, leader: int, epoch: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.leader = leader
        self.epoch = epoch


async def _each(
    what: Callable[[Address, Sequence[Part]], Awaitable[Mapping[Part, T | QuorateError]]],
    address: Address,
    group: Sequence[Part],
) -> Mapping[Part, T | QuorateError]:
    try:
        answers = await what(address, group)
    except QuorateError as error:
        return dict.fromkeys(group, error)
    missing = [part for part in group if part not in answers]
    return {**answers, **dict.fromkeys(missing, BadAnswer(str(address), "a partition is missing in the answer"))}


def refusal(part: tuple[str, int], error: int, what: str, message: str | None = None) -> QuorateError | None:
    """What a partition's error code means; None for no error."""
    if not error:
        return None
    if error == Error.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopic(*part)
    return RequestFailed(error, f"{what} {Part(*part)}", message)


def by_topic(parts: Collection[Part]) -> dict[str, list[int]]:
    """Partitions by topic, as most requests want them."""
    found: dict[str, list[int]] = {}
    for topic, partition in parts:
        found.setdefault(topic, []).append(partition)
    return found
