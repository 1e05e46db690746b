"""How messages, batches, writes and replicas are printed: one line each, the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    HardState,
    Message,
    NodeMessage,
    Offset,
    Persist,
    Raft,
    Role,
    RoleChange,
    Term,
    show_replica,
)
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Beat,
    BeatAnswer,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)

KINDS = (
    "append",
    "append-answer",
    "beat",
    "beat-answer",
    "heartbeat",
    "heartbeat-answer",
    "pre-vote",
    "pre-vote-answer",
    "snapshot",
    "timeout-now",
    "vote",
    "vote-answer",
)
_NAMES: dict[type[NodeMessage], str] = {
    Append: "append",
    AppendAnswer: "append-answer",
    Beat: "beat",
    BeatAnswer: "beat-answer",
    Heartbeat: "heartbeat",
    HeartbeatAnswer: "heartbeat-answer",
    InstallSnapshot: "snapshot",
    TimeoutNow: "timeout-now",
    VoteAnswer: "vote-answer",
    VoteRequest: "vote",
}


def kind(message: NodeMessage) -> str:
    """The name of a message's kind, as scripts write it."""
    name = _NAMES[type(message)]
    return f"pre-{name}" if isinstance(message, VoteRequest | VoteAnswer) and message.pre else name


def offset(value: Offset) -> str:
    """An offset; `-` before the first one."""
    return "-" if value < 0 else str(value)


def place(value: Offset, term: Term) -> str:
    """An offset and its term: `4@2`."""
    return "-" if value < 0 else f"{value}@{term}"


def content(batch: Batch) -> str:
    """What a batch holds, in a word."""
    if batch.kind is BatchKind.NOOP:
        return "noop"
    if batch.kind is BatchKind.CONFIG:
        return str(Configuration.decode(batch.data))
    return shorten(bytes(batch.data).decode())


def shorten(text: str) -> str:
    """A long payload by its first letters and its length."""
    return text if len(text) <= 24 else f"{text[:3]}..({len(text)} bytes)"


def batch(value: Batch) -> str:
    """`5-7@3 text`: the offsets a batch covers, its term, what it holds."""
    span = f"{value.base}" if value.base == value.last else f"{value.base}-{value.last}"
    return f"{span}@{value.term} {content(value)}"


def batches(values: Iterable[Batch]) -> str:
    return "[" + ", ".join(map(batch, values)) + "]"


def many(values: list[Batch]) -> str:
    """Batches one by one, or only where they begin and end when that would be a long line."""
    return batches(values) if len(values) <= 5 else f"{values[0].base}..{values[-1].last}"


def message(value: NodeMessage) -> str:
    """One message on one line."""
    if isinstance(value, Beat | BeatAnswer):
        return f"{value.sender}->{value.to} {kind(value)} {_beat(value)}"
    return f"{show_replica(value.sender)}->{show_replica(value.to)} {kind(value)} t{value.term}{_body(value)}"


def _beat(value: Beat | BeatAnswer) -> str:
    if isinstance(value, Beat):
        if value.claims is None:
            return f"#{value.sequence}"
        claims = ", ".join(f"g{claim.group} t{claim.term}" for claim in value.claims)
        return f"#{value.sequence} leads [{claims}]"
    if not value.known:
        return f"#{value.sequence} claims not known"
    refused = ", ".join(f"g{group} t{term}" for group, term in value.refused)
    return f"#{value.sequence} refuses [{refused}]" if refused else f"#{value.sequence}"


def _body(value: Message) -> str:
    match value:
        case Append():
            end = f" {batches(value.batches)}" if value.batches else ""
            return f" prev {place(value.previous, value.previous_term)}{end} commit {offset(value.commit)}"
        case AppendAnswer():
            if value.rejected:
                return f" no at {offset(value.match)}, try {place(value.hint, value.hint_term)}"
            return f" match {offset(value.match)}"
        case Heartbeat() | HeartbeatAnswer():
            ending = f" round {value.round}" if value.round else ""
            return f" commit {offset(value.commit)}{ending}"
        case VoteRequest():
            ending = " transfer" if value.transfer else ""
            return f" log {place(value.last, value.last_term)}{ending}"
        case VoteAnswer():
            return " yes" if value.granted else " no"
        case InstallSnapshot():
            start = value.snapshot.start
            state = shorten(bytes(value.snapshot.data).decode())
            return f" up to {place(start.offset, start.term)} {start.configuration} state ({state})"
        case TimeoutNow():
            return ""


def role(change: RoleChange) -> str:
    """`is leader in term 2`, `follows 1 in term 2`."""
    if change.role is Role.FOLLOWER and change.leader:
        return f"follows {show_replica(change.leader)} in term {change.term}"
    return f"is {change.role.value} in term {change.term}"


def hard_state(state: HardState) -> str:
    return f"term {state.term} vote {show_replica(state.vote)}"


def write(value: Persist) -> str:
    """What a write holds, in the order in which it is carried out."""
    parts = [f"#{value.token.sequence}"]
    if value.snapshot is not None:
        parts.append(f"snapshot up to {value.snapshot.start.offset}")
    if value.truncate is not None:
        parts.append(f"drop all above {offset(value.truncate)}")
    if value.batches:
        parts.append(batches(value.batches))
    if value.start is not None:
        parts.append(f"start after {value.start.offset}")
    if value.hard_state is not None:
        parts.append(f"{hard_state(value.hard_state)} commit {offset(value.hard_state.commit)}")
    return " ".join(parts)


def status(raft: Raft) -> list[str]:
    """Where a replica stands; a leader also tells what it knows of its followers."""
    log = raft.log
    standing = "stopped" if raft.role is Role.STOPPED else role(RoleChange(raft.role, raft.term, raft.leader))
    durable = f" (durable {offset(log.stable)})" if log.stable < log.last else ""
    lines = [
        f"{show_replica(raft.replica)} {standing}, vote {show_replica(raft.vote)}, "
        f"log {place(log.last, log.last_term)}{durable} commit {offset(log.commit)} applied {offset(log.applied)}, "
        f"{raft.configuration}"
    ]
    lines += [
        f"  {show_replica(progress.replica)} {progress.pace.value} match {offset(progress.match)} next {progress.next}"
        for progress in raft.progress.values()
    ]
    return lines
