"""A stage for coordinators: replicas of one `@groups` partition on a log that tests commit to, lose or hold back."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from quorate.broker.groups import (
    Append,
    Coordinator,
    Failure,
    GroupSettings,
    GroupsState,
    Identity,
    JoinRequest,
    Leaver,
    OffsetToCommit,
    Response,
    SyncRequest,
    build_batch,
)
from quorate.broker.groups.logs import NO_LOG
from quorate.broker.protocol.kafka.errors import Error
from quorate.consensus.core.types import Batch, BatchKind, Millis, Offset, Term

SESSION_MS = 10_000
REBALANCE_MS = 30_000
WALL_MS = 1_700_000_000_000
PROTOCOLS = (("range", b"likes-range"),)


class Box(list[Response]):
    """What a request was answered with: nothing yet, or one response."""

    def __call__(self, response: Response) -> None:
        assert not self, "a request was answered twice"
        self.append(response)

    @property
    def response(self) -> Response:
        assert self, "no answer yet"
        return self[0]

    @property
    def code(self) -> int:
        return int(self.response["error_code"])


class Queues:
    """The logs of queues with one partition, as a node's metadata knows them."""

    def __init__(self) -> None:
        self.logs: dict[str, int] = {}
        self.made = 0

    def make(self, *names: str) -> None:
        """Make queues, anew if they are there."""
        for name in names:
            self.made += 1
            self.logs[name] = self.made

    def log_of(self, queue: str, partition: int) -> int:
        return self.logs.get(queue, NO_LOG)

    def is_gone(self, log: int) -> bool:
        return 0 < log <= self.made and log not in self.logs.values()


class Replica:
    """A state and its coordinator."""

    def __init__(self, ids: count[int], settings: GroupSettings, queues: Queues) -> None:
        self.state = GroupsState()
        self.coordinator = Coordinator(self.state, lambda: f"{next(ids):04d}", settings, queues)


class Stage:
    """One replica leads; its appends commit at once, unless `hold` or `fail` is set."""

    def __init__(self, replicas: int = 1, **settings: int) -> None:
        self.now = Millis(1_000)
        self.log: list[Batch] = []
        self.hold = False
        self.fail: Failure | None = None
        self.fail_confirms: Failure | None = None
        self.held: deque[Append] = deque()
        ids = count(1)
        self.queues = Queues()
        self.replicas = [Replica(ids, GroupSettings(**settings), self.queues) for _ in range(replicas)]
        self.leader = self.replicas[0]
        self.coordinator.elected(self.now)
        self.pump()

    @property
    def coordinator(self) -> Coordinator:
        return self.leader.coordinator

    @property
    def end(self) -> Offset:
        return self.log[-1].last if self.log else Offset(-1)

    def pump(self) -> None:
        """Carry effects out until there are none."""
        while effects := self.coordinator.take():
            for append in effects.appends:
                if self.fail is not None:
                    append.done(self.fail, self.now)
                elif self.hold:
                    self.held.append(append)
                else:
                    self.commit(append)
            for confirm in effects.confirms:
                confirm.done(self.fail_confirms or self.end, self.now)
            for answer in effects.answers:
                answer.done(answer.response)

    def put(self, append: Append) -> Offset:
        """Into the log, and no further."""
        data = build_batch(append.records, WALL_MS + self.now)
        base = Offset(self.end + 1)
        last = Offset(base + len(append.records) - 1)
        self.log.append(Batch(base, last, Term(1), BatchKind.DATA, bytes(data)))
        return last

    def commit(self, append: Append) -> None:
        append.done(self.put(append), self.now)
        self.catch_up(self.leader)

    def release(self) -> None:
        """Commit what was held back."""
        self.hold = False
        while self.held:
            self.commit(self.held.popleft())
            self.pump()

    def catch_up(self, replica: Replica) -> None:
        replica.state.apply([batch for batch in self.log if batch.base > replica.state.applied])
        replica.coordinator.applied(self.now)

    def fail_over(self, to: int = 0) -> None:
        """Another replica leads (or the same one again), with everything that is in the log."""
        self.coordinator.deposed()
        self.pump()
        self.held.clear()
        self.leader = self.replicas[to]
        self.catch_up(self.leader)
        self.coordinator.elected(self.now)
        self.pump()

    def pass_time(self, ms: int) -> None:
        """Let timers fire one after the other."""
        until = Millis(self.now + ms)
        while (at := self.coordinator.next_deadline()) <= until:
            self.now = max(self.now, at)
            self.coordinator.tick(self.now)
            self.pump()
        self.now = until

    # Requests, with what most tests do not care about filled in.

    def join(self, member_id: str = "", **fields: Any) -> Box:
        box = Box()
        request: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": PROTOCOLS,
            "client_id": "c",
            **fields,
        }
        self.coordinator.join(self.now, JoinRequest(member_id=member_id, **request), box)
        self.pump()
        return box

    def sync(self, member: Response, assignments: dict[str, bytes] | None = None, **fields: Any) -> Box:
        box = Box()
        request = SyncRequest(group_id="g", member=identity(member), assignments=assignments or {}, **fields)
        self.coordinator.sync(self.now, request, box)
        self.pump()
        return box

    def heartbeat(self, member: Identity) -> int:
        box = Box()
        self.coordinator.heartbeat(self.now, "g", member, box)
        self.pump()
        return box.code

    def leave(self, *leavers: Leaver, batched: bool = True) -> Response:
        box = Box()
        self.coordinator.leave(self.now, "g", leavers, box, batched=batched)
        self.pump()
        return box.response

    def commit_offset(
        self, offset: int, member: Identity | None = None, queue: str = "q", group: str = "g", metadata: str | None = None
    ) -> Box:
        """One offset of partition 0. `code` of the answer is the partition's."""
        box = Box()

        def done(response: Response) -> None:
            box({**response, "error_code": response["topics"][0]["partitions"][0]["error_code"]})

        places = {queue: [OffsetToCommit(0, offset, 3, metadata)]}
        self.coordinator.commit_offsets(self.now, group, member or Identity(), places, done)
        self.pump()
        return box

    def offset(self, queue: str = "q", group: str = "g") -> int:
        box = Box()
        self.coordinator.fetch_offsets(self.now, group, {queue: [0]}, box)
        self.pump()
        assert box.code == Error.NONE
        return int(box.response["topics"][0]["partitions"][0]["committed_offset"])

    def describe(self, group: str = "g") -> Response:
        box = Box()
        self.coordinator.describe_group(self.now, group, box)
        self.pump()
        return box.response

    @property
    def phase(self) -> str:
        return str(self.describe()["group_state"])

    def stable(self, members: int = 2, **fields: Any) -> list[Response]:
        """A group with so many members that have their assignments; the leader's join comes first."""
        boxes = [self.join(**fields) for _ in range(members)]
        self.pass_time(1_000)
        joins = [box.response for box in boxes]
        joins.sort(key=lambda join: bool(join["member_id"] != join["leader"]))
        self.divide(joins)
        return joins

    def divide(self, joins: list[Response]) -> list[Box]:
        """All sync, the leader last; each member's work is named after it."""
        boxes = [self.sync(join) for join in joins[1:]]
        boxes.append(self.sync(joins[0], {join["member_id"]: work_of(join) for join in joins}))
        for box, join in zip(boxes, [*joins[1:], joins[0]], strict=True):
            assert box.code == Error.NONE
            assert box.response["assignment"] == work_of(join)
        return boxes


def identity(join: Response, instance: str | None = None) -> Identity:
    return Identity(join["member_id"], join["generation_id"], instance)


def work_of(join: Response) -> bytes:
    return f"work of {join['member_id']}".encode()
