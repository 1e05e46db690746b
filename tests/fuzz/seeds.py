"""`python -m tests.fuzz.seeds`: write the seeds of the targets that need more than a byte to begin with.

What the fuzzer found is in the same folders, by hand, under names that say what it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from quorate.consensus.core import NodeId, Term, replica_id
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Beat,
    BeatAnswer,
    Claim,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    NodeMessage,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.core.types import NO_OFFSET, GroupId, LogStart, Offset, Snapshot
from quorate.consensus.storage import keys
from quorate.consensus.transport import frames
from quorate.consensus.transport.handshake import Identity, Refusal, encode_greeting, encode_refusal
from tests.fuzz.targets.logs import LOGS
from tests.fuzz.targets.peers import encoded
from tests.support.batches import THREE, config_batch, data_batch, noop

CORPUS = Path(__file__).parent / "corpus"

Seeds = Iterator[tuple[str, bytes]]


def _frames() -> Seeds:
    hello = encode_greeting(frames.HELLO, Identity(b"c" * 16, NodeId(2), 1), NodeId(1))
    yield "peer-small", b"\x00\x10" + bytes([len(hello)]) + hello
    yield "peer-large", b"\x40\x00" + b"\x05" + (40_000).to_bytes(4, "little") + b"\x10" + bytes([255, 200])
    yield "kafka-small", b"\x00\x05" + b"\x0c" + (8).to_bytes(4, "big") + b"\x00\x12\x00\x04\x00\x00\x00\x01"
    yield "kafka-large", b"\xff\xff" + b"\x04" + (500_000).to_bytes(4, "big") + bytes([255] * 16)
    yield "too-long", b"\x01\x00" + b"\x05\xff\xff\xff\x7f\x10"


def _messages() -> list[NodeMessage]:
    head = (GroupId(7), replica_id(2), replica_id(1), Term(3))
    batches = (noop(1, 3), data_batch(2, 2, 3, 9), config_batch(4, THREE, 3))
    return [
        Append(*head, Offset(0), Term(2), Offset(0), batches),
        Append(*head, NO_OFFSET, Term(0), NO_OFFSET, ()),
        AppendAnswer(*head, Offset(4), False, Offset(4), Term(0)),
        Heartbeat(*head, Offset(4), 9),
        HeartbeatAnswer(*head, Offset(4), 9),
        VoteRequest(*head, Offset(4), Term(3), True, False),
        VoteAnswer(*head, False, True),
        InstallSnapshot(*head, Snapshot(LogStart(Offset(4), Term(3), THREE), b"state")),
        TimeoutNow(*head),
        Beat(NodeId(2), NodeId(1), 1, 5, 1, (Claim(*head),)),
        Beat(NodeId(2), NodeId(1), 1, 6, 1, None),
        BeatAnswer(NodeId(2), NodeId(1), 1, 6, 1, True, ((GroupId(7), Term(3)),), 1),
    ]


def _peer() -> Seeds:
    me = Identity(b"c" * 16, NodeId(2), 5, b"s" * 16)
    yield "hello", encode_greeting(frames.HELLO, me, NodeId(1))[4:]
    yield "welcome", encode_greeting(frames.WELCOME, me, NodeId(1))[4:]
    yield "refusal", encode_refusal(Refusal.CLUSTER, "another cluster")[4:]
    for number, message in enumerate(_messages()):
        yield f"{type(message).__name__.lower()}-{number}", encoded(message)[4:]


def _raft() -> Seeds:
    random = Random(5)
    for number in range(10):
        yield f"steps-{number}", bytes([number % 5 | 128 * (number > 4)]) + random.randbytes(40)


def _values() -> Seeds:
    """The first byte: which value, and 0x80 where the checksum is left out, to be made by the target. 5 divides 0x82."""
    ways = {keys.MARK: 0x82, keys.INDEX: 0x83, keys.STATE: 0x84}
    for number, content in enumerate(LOGS):
        for key, value in sorted(content.items()):
            place = keys.parse_key(key)
            if place is not None and place[1] in ways:
                yield f"log{number}-{place[0]}-{place[1]}", bytes([ways[place[1]]]) + value[:-4]
    yield "sealed", b"\x00" + next(value for key, value in LOGS[0].items() if key[-1] == keys.MARK)
    yield "key", b"\x03" + keys.batch_key(7)
    yield "members", b"\x04" + THREE.encode()


def _log() -> Seeds:
    random = Random(7)
    for number in range(len(LOGS)):
        yield f"whole-{number}", bytes([number])
    for number in range(12):
        steps = [random.choice((0, 1, 3, 128, random.randrange(256))) for _ in range(10)]
        yield f"changed-{number}", bytes([number % len(LOGS), *steps])


SEEDS = {"frames": _frames, "log": _log, "peer": _peer, "raft": _raft, "values": _values}


def main() -> None:
    for target, seeds in SEEDS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
