"""The coordinator of the groups of one `@groups` partition, without I/O: the door through which everything comes in.

Time is handed in, effects are taken out (`take`), and requests are answered through effects too, so that an answer may
lead to the next request at once. It serves while its replica leads and the state has everything that was committed before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from zlib import crc32

from quorate.broker.groups.admin import Admin, describe_error
from quorate.broker.groups.answers import join_error, sync_error
from quorate.broker.groups.desk import Desk
from quorate.broker.groups.effects import Done, Effects
from quorate.broker.groups.joining import Joining
from quorate.broker.groups.logs import Logs, NoLogs
from quorate.broker.groups.membership import Membership
from quorate.broker.groups.offsets import Offsets, Partitions, commit_response, fetch_error
from quorate.broker.groups.rebalance import Rebalancer
from quorate.broker.groups.requests import Identity, JoinRequest, Leaver, OffsetToCommit, SyncRequest
from quorate.broker.groups.settings import GroupSettings
from quorate.broker.groups.state import GroupsState
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import Millis

DEFAULT_SETTINGS = GroupSettings()


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of `@groups` that coordinates a group."""
    return crc32(group_id.encode("utf-8", "surrogatepass")) % partitions


class Standing(Enum):
    """Whether requests are served here."""

    AWAY = "away"
    LOADING = "loading"
    SERVING = "serving"


_TOLD = {Standing.AWAY: Error.NOT_COORDINATOR, Standing.LOADING: Error.COORDINATOR_LOAD_IN_PROGRESS}


class Coordinator:
    """One per replica of a `@groups` partition. After each call: `take` the effects, and look at `next_deadline`."""

    def __init__(
        self,
        state: GroupsState,
        new_id: Callable[[], str],
        settings: GroupSettings = DEFAULT_SETTINGS,
        logs: Logs | None = None,
    ) -> None:
        self._desk = Desk(state, new_id, settings, logs or NoLogs())
        self._rebalancer = Rebalancer(self._desk)
        self._joining = Joining(self._desk, self._rebalancer)
        self._membership = Membership(self._desk, self._rebalancer)
        self._offsets = Offsets(self._desk)
        self._admin = Admin(self._desk)
        self.standing = Standing.AWAY

    # Leading

    def loading(self) -> None:
        """The replica leads, but its state does not have everything yet that was committed before."""
        self._resign()
        self.standing = Standing.LOADING

    def elected(self, now: Millis) -> None:
        """The replica leads and the state is complete: serve. All known members get a full session."""
        self._resign()
        self.standing = Standing.SERVING
        desk = self._desk
        desk.now = now
        for name in desk.state.groups:
            desk.make(name)
        desk.settle()

    def deposed(self) -> None:
        """The replica does not lead any more. Whoever waits is sent away."""
        self._resign()
        self.standing = Standing.AWAY

    def _resign(self) -> None:
        desk = self._desk
        desk.abandon()
        for group in desk.groups.values():
            for member in group.members.values():
                self._rebalancer.dismiss(member, Error.NOT_COORDINATOR)
        desk.close()

    # Time and effects

    def tick(self, now: Millis) -> None:
        """Do what has become due."""
        desk = self._desk
        desk.advance(now)
        while (group := desk.due()) is not None:
            self._rebalancer.expire(group)
        desk.settle()

    def next_deadline(self) -> Millis:
        """When `tick` is to be called next."""
        self._desk.settle()
        return self._desk.next_deadline()

    def applied(self, now: Millis) -> None:
        """The state has applied something: answer what waited for it."""
        self._desk.advance(now)
        self._desk.applied()

    def take(self) -> Effects:
        """What is to be done now. Whoever takes it does all of it."""
        self._desk.settle()
        effects, self._desk.effects = self._desk.effects, Effects()
        return effects

    # Requests

    def join(self, now: Millis, request: JoinRequest, done: Done) -> None:
        """JoinGroup. The answer comes when the next generation stands in the log."""
        if code := self._refusal(now, request.group_id, named=True):
            return self._desk.answer(done, join_error(code, request.member_id))
        return self._joining.join(request, done)

    def sync(self, now: Millis, request: SyncRequest, done: Done) -> None:
        """SyncGroup. The answer comes when the assignment stands in the log."""
        if code := self._refusal(now, request.group_id, named=True):
            return self._desk.answer(done, sync_error(code))
        return self._membership.sync(request, done)

    def heartbeat(self, now: Millis, group_id: str, member: Identity, done: Done) -> None:
        """Heartbeat."""
        if code := self._refusal(now, group_id, named=True):
            return self._desk.answer(done, {"error_code": code})
        return self._membership.heartbeat(group_id, member, done)

    def leave(self, now: Millis, group_id: str, leavers: Sequence[Leaver], done: Done, *, batched: bool = True) -> None:
        """LeaveGroup. Before version 3 there is one leaver, and `batched` is false: its error is the whole response's."""
        if code := self._refusal(now, group_id, named=True):
            return self._desk.answer(done, {"error_code": code, "members": []})
        return self._membership.leave(group_id, leavers, done, batched=batched)

    def commit_offsets(
        self, now: Millis, group_id: str, member: Identity, queues: Mapping[str, Sequence[OffsetToCommit]], done: Done
    ) -> None:
        """OffsetCommit. The answer comes when the offsets stand in the log."""
        if code := self._refusal(now, group_id):
            return self._desk.answer(done, commit_response(queues, code))
        return self._offsets.commit(group_id, member, queues, done)

    def fetch_offsets(self, now: Millis, group_id: str, queues: Partitions | None, done: Done) -> None:
        """OffsetFetch of one group; None asks for all its offsets. The response fits both forms of Kafka's."""
        if code := self._refusal(now, group_id):
            return self._desk.answer(done, fetch_error(group_id, queues, code))
        return self._offsets.fetch(group_id, queues, done)

    def delete_offsets(self, now: Millis, group_id: str, queues: Partitions, done: Done) -> None:
        """OffsetDelete."""
        if code := self._refusal(now, group_id, named=True):
            return self._desk.answer(done, {"error_code": code, "topics": []})
        return self._offsets.delete(group_id, queues, done)

    def list_groups(self, now: Millis, states: Collection[str], done: Done) -> None:
        """ListGroups: those of this partition. No states mean all."""
        if code := self._refusal(now, ""):
            return self._desk.answer(done, {"error_code": code, "groups": []})
        return self._admin.list(states, done)

    def describe_group(self, now: Millis, group_id: str, done: Done) -> None:
        """DescribeGroups: one element of `groups`."""
        if code := self._refusal(now, group_id):
            return self._desk.answer(done, describe_error(group_id, code))
        return self._admin.describe(group_id, done)

    def delete_group(self, now: Millis, group_id: str, done: Done) -> None:
        """DeleteGroups: one element of `results`."""
        if code := self._refusal(now, group_id):
            return self._desk.answer(done, {"group_id": group_id, "error_code": code})
        return self._admin.delete(group_id, done)

    # Housekeeping

    def forget_queue(self, now: Millis, queue: str) -> None:
        """A queue was deleted: drop its offsets. Does nothing on a replica that does not serve: what it leaves is told to
        nobody, and dropped by `expire_offsets`."""
        if not self._refusal(now, ""):
            self._offsets.forget_queue(queue)

    def expire_offsets(self, now: Millis, wall_ms: int) -> None:
        """Drop offsets that are past their retention, or of deleted queues. Call it every few minutes; `wall_ms` is the
        log's kind of time."""
        if not self._refusal(now, ""):
            self._offsets.expire(wall_ms)

    def _refusal(self, now: Millis, group_id: str, *, named: bool = False) -> Error:
        self._desk.advance(now)
        if self.standing is not Standing.SERVING:
            return _TOLD[self.standing]
        # Kafka lets consumers that never join commit to the group without a name.
        return Error.INVALID_GROUP_ID if named and not group_id else Error.NONE
