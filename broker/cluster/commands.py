"""Changes of the cluster's metadata, as they stand in the log of `@cluster`.

A command is proposed by whoever wants the change and judged where it is applied, the same way on every node. A command
carries what its proposer has decided (an id, a placement); applying it decides nothing by chance.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

from quorate.broker.cluster.values import Membership, NodeInfo
from quorate.broker.json_text import read_json
from quorate.broker.protocol.builder import BatchBuilder
from quorate.broker.protocol.records import read_records
from quorate.consensus.core.types import Buffer

MAX_APPLICATION_ID = 1_000
"""Characters."""
MAX_NODE = MAX_INCARNATION = (1 << 32) - 1
_ID_DIGITS = frozenset("0123456789abcdef")

Placement = tuple[tuple[int, ...], ...]
"""For each partition the nodes of its replicas, the preferred leader first."""


class BadCommand(ValueError):
    """What can be no command: made so by mistake, written by a later release, or not by Quorate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Base of all commands. `token` finds its result on the node that proposed it.

    Fields are checked when a command is made, so one that no node could judge never comes into the log: it would stop
    `@cluster` on every node, and again at every start.
    """

    kind: ClassVar[str]
    token: str

    def __post_init__(self) -> None:
        """Raises BadCommand."""
        for one in fields(self):
            check = _CHECKS.get((self.kind, one.name)) or _CHECKS["", one.name]
            if not check(getattr(self, one.name)):
                raise BadCommand(f"{self.kind}: {one.name} cannot be {getattr(self, one.name)!r:.200}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_node(value: object) -> bool:
    return _is_count(value) and 0 < cast(int, value) <= MAX_NODE


def _are_nodes(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_node, value))


def _are_counts(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_count, value))


_are_replicas = _are_counts


def _is_published(value: tuple[object, object, object]) -> bool:
    application, batch, groups = value
    return _is_text(application) and _is_count(batch) and _are_counts(groups)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and len(value) == 32 and _ID_DIGITS.issuperset(value)


def _is_info(node: NodeInfo) -> bool:
    texts = (node.host, node.peer_host, node.rack)
    ports = (node.kafka_port, node.http_port, node.peer_port)
    return (
        all(map(_is_text, texts))
        and all(_is_count(port) and port < 1 << 16 for port in ports)
        and _is_node(node.id)
        and (node.storage == "" or _is_id(node.storage))
        and _is_incarnation(node.incarnation)
    )


def _is_incarnation(value: object) -> bool:
    return _is_count(value) and cast(int, value) <= MAX_INCARNATION


def _are_settings(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_CHECKS: dict[tuple[str, str], Callable[[object], bool]] = {
    ("", "token"): _is_text,
    ("", "name"): _is_text,
    ("", "id"): _is_id,
    ("delete-queue", "id"): lambda value: value is None or _is_id(value),
    ("", "node"): _is_node,
    ("register-node", "node"): lambda value: isinstance(value, NodeInfo) and _is_info(value),
    ("", "membership"): lambda value: value in tuple(Membership),
    ("", "settings"): _are_settings,
    ("", "placement"): lambda value: isinstance(value, tuple) and all(map(_are_nodes, value)),
    ("", "nodes"): _are_nodes,
    ("", "group"): _is_count,
    ("", "had"): _is_count,
    ("", "count"): _is_count,
    ("", "cancel"): lambda value: isinstance(value, bool),
    ("", "application"): lambda value: isinstance(value, str) and 0 < len(value) <= MAX_APPLICATION_ID,
    ("", "batch"): _is_count,
    ("", "digest"): _is_text,
    ("", "parts"): lambda value: (
        isinstance(value, tuple) and all(_is_count(one) and _are_counts(more) for one, more in value)
    ),
    ("", "commits"): lambda value: isinstance(value, tuple) and all(map(_is_published, value)),
    ("", "until_ms"): _is_count,
    ("", "producers"): _are_counts,
    ("", "target"): _are_replicas,
    ("end-move", "target"): lambda value: value is None or _are_replicas(value),
}
"""What each field may be, by its name, or by command and name where that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode(Command):
    """A node is part of the cluster, at these addresses, on this storage. The result is its incarnation in `@cluster`."""

    kind: ClassVar[str] = "register-node"
    node: NodeInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMembership(Command):
    """Drain a node, or let it take replicas again."""

    kind: ClassVar[str] = "set-membership"
    node: int
    membership: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNode(Command):
    """Forget a node that holds nothing."""

    kind: ClassVar[str] = "remove-node"
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue(Command):
    """Create a queue with this id, these settings and these replicas."""

    kind: ClassVar[str] = "create-queue"
    name: str
    id: str
    placement: Placement
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue(Command):
    """Delete a queue and all that it holds. The id, if given, must be the queue's."""

    kind: ClassVar[str] = "delete-queue"
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowQueue(Command):
    """Add partitions. `had` is how many there were: two who grow a queue at once do not both succeed."""

    kind: ClassVar[str] = "grow-queue"
    name: str
    had: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings(Command):
    """Set some settings of a queue; None takes one back to its default."""

    kind: ClassVar[str] = "set-settings"
    name: str
    settings: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginMove(Command):
    """Give a partition other replicas: on these nodes. Those that it has already stay."""

    kind: ClassVar[str] = "begin-move"
    group: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelMove(Command):
    """Call the move to this target off. It ends when the group's leader has seen to it that the target can never vote."""

    kind: ClassVar[str] = "cancel-move"
    group: int
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMove(Command):
    """The group's members are the target now: the others are gone. Or, with `cancel`, the target is given up: only of a
    move that was cancelled, and only if the group's committed configuration can never take the target's new replicas.

    `target` says which move is meant, by its replicas: this command may be applied late, and must not end the next one.
    """

    kind: ClassVar[str] = "end-move"
    group: int
    target: tuple[int, ...] | None = None
    cancel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeProducerIds(Command):
    """Take a block of producer ids; the result is its first."""

    kind: ClassVar[str] = "take-producer-ids"
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommand(Command):
    """Base of what is decided about staged records: see `staged`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitStages(StagedCommand):
    """Commit an application's next batch: all of these stages or none. The result says whether it was committed before.

    The leaders of all groups have said that the stages are whole; nobody drops them before `until_ms`, in log time, without
    asking here first.
    """

    kind: ClassVar[str] = "commit-stages"
    application: str
    batch: int
    digest: str
    parts: tuple[tuple[int, tuple[int, ...]], ...]
    """Groups, with the producers whose stages are there."""
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesPublished(StagedCommand):
    """These groups have published all that these commits have there. The result is how many commits are over by that."""

    kind: ClassVar[str] = "stages-published"
    commits: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Application, batch, groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStages(StagedCommand):
    """What these producers have staged can never be committed, unless it is already. The result is how many were not."""

    kind: ClassVar[str] = "drop-stages"
    producers: tuple[int, ...]


_KINDS: dict[str, type[Command]] = {
    one.kind: one
    for one in (
        RegisterNode,
        SetMembership,
        RemoveNode,
        CreateQueue,
        DeleteQueue,
        GrowQueue,
        SetSettings,
        BeginMove,
        CancelMove,
        EndMove,
        TakeProducerIds,
        CommitStages,
        StagesPublished,
        DropStages,
    )
}


def known_node(facts: object) -> NodeInfo:
    """A node out of its JSON form, each of its facts checked. Raises BadCommand."""
    try:
        node = NodeInfo.from_facts(cast("dict[str, Any]", facts))
    except (ValueError, KeyError, TypeError) as error:
        raise BadCommand(f"{facts!r:.200} is no node: {error!r}") from error
    if not _is_info(node):
        raise BadCommand(f"no node can be {facts!r:.200}")
    return node


def encode(command: Command) -> bytes:
    """The command as JSON."""
    said: dict[str, Any] = {"kind": command.kind}
    for one in fields(command):
        value = getattr(command, one.name)
        said[one.name] = value.facts() if isinstance(value, NodeInfo) else value
    return json.dumps(said, separators=(",", ":"), sort_keys=True, default=dict).encode()


def decode(data: bytes) -> Command:
    """The inverse. Raises BadCommand."""
    try:
        said = read_json(data)
        kind = _KINDS[said.pop("kind")]
        if "node" in said and isinstance(said["node"], dict):
            said["node"] = known_node(said["node"])
        if "placement" in said:
            said["placement"] = tuple(tuple(nodes) for nodes in said["placement"])
        for name in ("nodes", "target", "producers"):
            if said.get(name) is not None:
                said[name] = tuple(said[name])
        if "parts" in said:
            said["parts"] = tuple((group, tuple(producers)) for group, producers in said["parts"])
        if "commits" in said:
            said["commits"] = tuple((name, batch, tuple(groups)) for name, batch, groups in said["commits"])
        return kind(**said)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCommand(f"{data[:200]!r} is no command: {error!r}") from error


def to_batch(command: Command, now_ms: int) -> bytearray:
    """The command as a batch of one record."""
    builder = BatchBuilder()
    builder.append(now_ms, None, encode(command))
    return builder.build()


def from_batch(data: Buffer) -> list[Command]:
    """The commands in a batch."""
    return [decode(bytes(record.value or b"")) for record in read_records(data)]
