"""Where groups go on reading, for readers that are no members: committing offsets and asking for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from quorate.broker.protocol.kafka.apis import Api
from quorate.client.core import Core, Message, Part, by_topic, refusal
from quorate.client.errors import BadAnswer, BadInput, QuorateError, RequestFailed
from quorate.client.pool import Lane
from quorate.client.values import Address

T = TypeVar("T")
_GROUP: Final = 0


async def coordinator(core: Core, group: str) -> Address:
    """The node that coordinates a group."""
    return await core.repeat(lambda: _find(core, group))


async def _find(core: Core, group: str) -> Address:
    said = await core.ask_anybody(Api.FIND_COORDINATOR, {"key": group, "key_type": _GROUP})
    if said["error_code"]:
        raise RequestFailed(said["error_code"], f"the coordinator of group {group!r}", said["error_message"])
    return Address(said["host"], said["port"])


async def _at_coordinator(core: Core, group: str, what: Callable[[Address], Awaitable[T]]) -> T:
    async def once() -> T:
        return await what(await _find(core, group))

    return await core.repeat(once)


async def commit_group_offsets(core: Core, group: str, offsets: Mapping[Part, int]) -> None:
    """Commit offsets of a group that has no members. Repeated until it is known to be done: they are set, not added to."""
    for part, offset in offsets.items():
        if offset < 0:
            raise BadInput(f"{part}: offset {offset} cannot be committed")
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": one, "committed_offset": offsets[Part(topic, one)], "committed_metadata": ""}
                for one in partitions
            ],
        }
        for topic, partitions in by_topic(offsets).items()
    ]
    value = {"group_id": group, "member_id": "", "topics": topics}

    async def once(address: Address) -> None:
        said = await core.ask(address, Api.OFFSET_COMMIT, value, Lane.ALONE)
        errors = _errors(said, f"a commit of group {group!r} for")
        _complete(address, offsets, errors)
        for error in errors.values():
            if error is not None:
                raise error

    if offsets:
        await _at_coordinator(core, group, once)


async def group_offsets(core: Core, group: str, parts: Collection[Part] | None = None) -> dict[Part, int]:
    """A group's committed offsets, all of them unless partitions are named; -1 for one that has none."""
    topics = None
    if parts is not None:
        topics = [{"name": topic, "partition_indexes": indexes} for topic, indexes in by_topic(parts).items()]
    value = {"group_id": group, "topics": topics, "require_stable": True}

    async def once(address: Address) -> dict[Part, int]:
        said = await core.ask(address, Api.OFFSET_FETCH, value, Lane.ALONE)
        if said["error_code"]:
            raise RequestFailed(said["error_code"], f"the offsets of group {group!r}")
        for error in _errors(said, f"the offset of group {group!r} for").values():
            if error is not None:
                raise error
        found = {
            Part(topic["name"], one["partition_index"]): int(one["committed_offset"])
            for topic in said["topics"]
            for one in topic["partitions"]
        }
        if parts is not None:
            _complete(address, parts, found)
        return found

    return await _at_coordinator(core, group, once)


def _errors(said: Message, what: str) -> dict[Part, QuorateError | None]:
    return {
        (part := Part(topic["name"], one["partition_index"])): refusal(part, one["error_code"], what)
        for topic in said["topics"]
        for one in topic["partitions"]
    }


def _complete(address: Address, wanted: Collection[Part], answered: Collection[Part]) -> None:
    missing = [part for part in wanted if part not in answered]
    if missing:
        raise BadAnswer(str(address), f"nothing about {missing[0]}")
