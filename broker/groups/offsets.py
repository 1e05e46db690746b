"""Committed offsets: writing, reading and deleting them, and letting those of forgotten groups go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorate.broker.groups.desk import Desk
from quorate.broker.groups.effects import Done, Response
from quorate.broker.groups.group import Group
from quorate.broker.groups.membership import check_member
from quorate.broker.groups.phases import Phase
from quorate.broker.groups.requests import Identity, OffsetToCommit
from quorate.broker.groups.subscription import subscribed
from quorate.broker.groups.values import Change, GroupDropped, OffsetCommitted, OffsetDropped, QueueForgotten
from quorate.broker.protocol.kafka.errors import Error

Partitions = Mapping[str, Sequence[int]]
"""Partitions by queue."""
_CONSUMER = "consumer"


class Offsets:
    """Decides what requests about offsets mean."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def commit(self, group_id: str, who: Identity, queues: Mapping[str, Sequence[OffsetToCommit]], done: Done) -> None:
        desk = self._desk
        group = desk.find(group_id)
        code = self._commit_refusal(group, who)
        if code:
            return desk.answer(done, commit_response(queues, code))
        group = desk.make(group_id)
        if who.member_id in group.members:
            group.members[who.member_id].touch(desk.now)
        changes = [
            self._commit(group_id, queue, place)
            for queue, places in queues.items()
            for place in places
            if not self._too_large(place)
        ]
        if changes:
            desk.append(group, changes, lambda code: desk.answer(done, self._committed(queues, code)))
        else:
            desk.answer(done, self._committed(queues, Error.NONE))
        return None

    def _commit(self, group_id: str, queue: str, place: OffsetToCommit) -> Change:
        log = self._desk.logs.log_of(queue, place.partition)
        return OffsetCommitted(group_id, queue, place.partition, place.offset, place.leader_epoch, place.metadata or "", log)

    def _commit_refusal(self, group: Group | None, who: Identity) -> Error:
        simple = who.generation_id < 0 and not who.member_id
        if group is None:
            # The group is founded by this commit, unless its member believes that it is in one.
            return Error.NONE if simple else Error.ILLEGAL_GENERATION
        if simple and group.phase is Phase.EMPTY:
            return Error.NONE
        code = check_member(group, who)
        if not code and group.phase is Phase.COMPLETING:
            group.members[who.member_id].touch(self._desk.now)
            return Error.REBALANCE_IN_PROGRESS
        return code

    def _too_large(self, place: OffsetToCommit) -> bool:
        return len((place.metadata or "").encode(errors="surrogatepass")) > self._desk.settings.max_metadata_bytes

    def _committed(self, queues: Mapping[str, Sequence[OffsetToCommit]], code: Error) -> Response:
        response = commit_response(queues, code)
        for topic, places in zip(response["topics"], queues.values(), strict=True):
            for answer, place in zip(topic["partitions"], places, strict=True):
                if self._too_large(place):
                    answer["error_code"] = Error.OFFSET_METADATA_TOO_LARGE
        return response

    def fetch(self, group_id: str, queues: Partitions | None, done: Done) -> None:
        """All offsets of a group, or those of some partitions.

        The lead is confirmed first. A coordinator that was replaced and has not noticed would send a consumer back behind
        what its successor has acknowledged.
        """
        desk = self._desk

        def answer(code: Error) -> None:
            desk.answer(done, fetch_error(group_id, queues, code) if code else self._fetched(group_id, queues))

        desk.confirm(answer)

    def _fetched(self, group_id: str, queues: Partitions | None) -> Response:
        # A queue that was made again under its name begins anew, whether or not the old offsets are dropped by now.
        logs = self._desk.logs
        known = {key: place for key, place in self._desk.state.offsets(group_id).items() if not logs.is_gone(place.log)}
        if queues is None:
            every: dict[str, list[int]] = {}
            for queue, partition in sorted(known):
                every.setdefault(queue, []).append(partition)
            queues = every
        topics = []
        for queue, partitions in queues.items():
            places = []
            for partition in partitions:
                place = known.get((queue, partition))
                offset, epoch, metadata = place[:3] if place is not None else (-1, -1, "")
                places.append(_place(partition, offset, epoch, metadata, Error.NONE))
            topics.append({"name": queue, "partitions": places})
        return {"group_id": group_id, "error_code": Error.NONE, "topics": topics}

    def delete(self, group_id: str, queues: Partitions, done: Done) -> None:
        desk = self._desk
        group = desk.find(group_id)
        code = Error.GROUP_ID_NOT_FOUND if group is None else Error.NONE
        if group is not None and group.phase is Phase.DEAD:
            code = Error.COORDINATOR_NOT_AVAILABLE
        elif group is not None and group.phase is not Phase.EMPTY and group.protocol_type != _CONSUMER:
            code = Error.NON_EMPTY_GROUP
        if group is None or code:
            return desk.answer(done, {"error_code": code, "topics": []})
        read = _queues_read(group)
        busy = {queue for queue in queues if group.phase is not Phase.EMPTY and (read is None or queue in read)}
        known = desk.state.offsets(group_id)
        # Also those that the state does not have yet: their commits may be on the way.
        changes: list[Change] = [
            OffsetDropped(group_id, queue, partition)
            for queue, partitions in queues.items()
            for partition in partitions
            if queue not in busy and (group.appends or (queue, partition) in known)
        ]

        def answer(code: Error) -> None:
            topics = [
                {
                    "name": queue,
                    "partitions": [
                        {
                            "partition_index": p,
                            "error_code": Error.GROUP_SUBSCRIBED_TO_TOPIC if queue in busy else Error.NONE,
                        }
                        for p in partitions
                    ],
                }
                for queue, partitions in queues.items()
            ]
            desk.answer(done, {"error_code": code, "topics": [] if code else topics})

        if changes:
            desk.append(group, changes, answer)
        else:
            answer(Error.NONE)
        return None

    def forget_queue(self, queue: str) -> None:
        """A queue was deleted. Should nobody serve now, or the append be lost, `expire` does it."""
        offsets = (entry.offsets for entry in self._desk.state.groups.values())
        if any(key[0] == queue for known in offsets for key in known) or self._desk.open:
            self._desk.append(None, [QueueForgotten(queue)], lambda _: None)

    def expire(self, wall_ms: int) -> None:
        """Drop what was committed for logs that are gone, what groups that have been empty for too long have committed, and
        groups of which nothing is left."""
        desk = self._desk
        horizon = wall_ms - desk.settings.offset_retention_ms
        for name, entry in list(desk.state.groups.items()):
            group = desk.groups.get(name)
            # Commits may be on the way, and must not be dropped by a record behind them.
            if group is not None and group.appends:
                continue
            gone: list[Change] = [OffsetDropped(name, *key) for key, p in entry.offsets.items() if desk.logs.is_gone(p.log)]
            if gone:
                desk.append(desk.make(name), gone, lambda _: None)
                continue
            # A group at hand is in use.
            if group is not None or (entry.info is not None and entry.info.members):
                continue
            since = entry.info.since_ms if entry.info is not None else 0
            old = [key for key, place in entry.offsets.items() if max(since, place.commit_time_ms) <= horizon]
            if len(old) == len(entry.offsets) and since <= horizon:
                changes: list[Change] = [GroupDropped(name)]
            else:
                changes = [OffsetDropped(name, *key) for key in old]
            if changes:
                # As a group with something under way, so that it is not looked at twice.
                desk.append(desk.make(name), changes, lambda _: None)


def commit_response(queues: Mapping[str, Sequence[OffsetToCommit]], code: Error) -> Response:
    """The same code for every partition."""
    return {
        "topics": [
            {"name": queue, "partitions": [{"partition_index": p.partition, "error_code": code} for p in places]}
            for queue, places in queues.items()
        ]
    }


def fetch_error(group_id: str, queues: Partitions | None, code: Error) -> Response:
    """The error for the group and, for old versions, for each partition that was asked for."""
    topics = [
        {"name": queue, "partitions": [_place(partition, -1, -1, "", code) for partition in partitions]}
        for queue, partitions in (queues or {}).items()
    ]
    return {"group_id": group_id, "error_code": code, "topics": topics}


def _place(partition: int, offset: int, epoch: int, metadata: str, code: Error) -> Response:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "metadata": metadata,
        "error_code": code,
    }


def _queues_read(group: Group) -> set[str] | None:
    """The queues that members read; None when they cannot be known."""
    queues: set[str] = set()
    for member in group.members.values():
        for _, metadata in member.protocols:
            names = subscribed(metadata)
            if names is None:
                return None
            queues |= names
    return queues
