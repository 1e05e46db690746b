"""`python -m tests.fuzz.seeds`: write the seeds of the targets that need more than a byte to begin with.

What the fuzzer found is in the same folders, by hand, under names that say what it is.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import plyvel

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import ANSWER, CALL
from quorate.broker.cluster.directory import Status
from quorate.broker.groups import encode_change
from quorate.broker.groups.values import (
    Change,
    GroupDropped,
    OffsetDropped,
    QueueForgotten,
)
from quorate.broker.node import toml
from quorate.broker.partition.stages import stage_batch, stage_drop_batch
from quorate.broker.partition.state import PartitionState, log_start_batch
from quorate.broker.protocol.builder import Producer
from quorate.broker.protocol.kafka.apis import Api
from quorate.broker.protocol.kafka.codec import encode_request_frame
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
from tests.broker.partition.lab import batch
from tests.broker.partition.test_state import placed
from tests.fuzz.targets import clients
from tests.fuzz.targets.consumer_groups import CHANGES, small_groups
from tests.fuzz.targets.logs import LOGS
from tests.fuzz.targets.metadata import COMMANDS, small_cluster
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


def _served() -> Seeds:
    def asked(*frames: bytes) -> bytes:
        return b"".join(len(frame).to_bytes(2, "big") + frame for frame in frames)

    def request(api: Api, version: int, **value: Any) -> bytes:
        return encode_request_frame(api, version, 7, "c", value)[4:]

    known = sorted((CORPUS / "kafka").iterdir())
    for first, second in zip(known[::2], known[1::2], strict=False):
        yield f"{first.name}-{second.name}", asked(first.read_bytes(), second.read_bytes())
    member = {"group_id": "g", "member_id": "", "protocol_type": "consumer", "rebalance_timeout_ms": 9}
    metadata = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
    protocols = [{"name": "range", "metadata": metadata}]
    offsets = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5, "committed_metadata": "m"}]}]
    yield (
        "a-group",
        asked(
            request(Api.JOIN_GROUP, 3, **member, session_timeout_ms=9_000, protocols=protocols),
            request(Api.OFFSET_COMMIT, 2, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=offsets),
            request(Api.OFFSET_FETCH, 2, group_id="g", topics=None),
            request(Api.DESCRIBE_GROUPS, 0, groups=["g"]),
            request(Api.LIST_GROUPS, 0),
        ),
    )
    partition = {"index": 0, "records": bytes(batch(2))}
    produced = request(Api.PRODUCE, 3, acks=-1, topic_data=[{"name": "t", "partition_data": [partition]}])
    wanted = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 999}]}]
    yield "a-log", asked(produced, request(Api.FETCH, 4, topics=wanted, max_bytes=999, max_wait_ms=9))


def _spark() -> Seeds:
    known = {path.name: path.read_bytes()[1:] for path in sorted((CORPUS / "batch").iterdir())}
    for name, data in known.items():
        if len(data) < 1_000:
            yield name, b"\1" + len(data).to_bytes(2, "big") + data
    small = bytes(batch(70))
    two = known["small-zstd"]
    yield "many-and-packed", b"\1" + b"".join(len(one).to_bytes(2, "big") + one for one in (small, two, small))
    yield "as-they-are", b"\0" + bytes(batch(3)) + bytes(batch(2))


def _journals() -> Seeds:
    with tempfile.TemporaryDirectory() as path:
        db = plyvel.DB(path, create_if_missing=True, write_buffer_size=4096)
        for number in range(60):
            db.put(b"key%d" % number, b"v" * 100)
        db.close()
        for file in sorted(Path(path).iterdir()):
            if file.name.startswith("MANIFEST-") or file.suffix == ".log":
                content = file.read_bytes()[:1500]
                yield f"{file.name.split('-')[0].lower().replace('.', '-')}-cut", b"\x00" + content
                yield f"{file.name.split('-')[0].lower().replace('.', '-')}-raw", b"\x01" + content
    yield "promise-mended", b"\x02" + bytes(8) + (5).to_bytes(8, "little")
    yield "promise-raw", b"\x03" + b"promise1"


def _partition() -> Seeds:
    state = PartitionState()
    batches = [placed(batch(2, Producer(number, 0, 0)), 2 * number, 1_000 + number) for number in range(3)]
    start = placed(log_start_batch(3), 6, 1_010)
    state.apply([*batches, start], 1_000)
    yield "snapshot", b"\x00" + state.save()
    yield "batches", b"\x01" + b"".join(len(one.data).to_bytes(2, "big") + one.data for one in (*batches, start))
    staged = PartitionState()
    stages = [placed(stage_batch(batch(2, Producer(7, 0, 2 * number))), number, 1_000 + number) for number in range(2)]
    dropped = placed(stage_drop_batch([7, 9]), 2, 1_010)
    staged.apply(stages, 1_000)
    yield "stages", b"\x00" + staged.save()
    staged.apply([dropped], 1_000)
    yield "stages-dropped", b"\x00" + staged.save()
    yield "stage-batches", b"\x01" + b"".join(len(one.data).to_bytes(2, "big") + one.data for one in (*stages, dropped))
    yield "stage", b"\x32" + bytes(batch(2, Producer(7, 0, 0)))
    yield "stage-drop", b"\x41" + bytes(9)
    yield "log-start", b"\x26" + (2 + 1).to_bytes(8, "big")


def _client() -> Seeds:
    good, lost = bytes([clients.GOOD]), bytes([clients.LOST])
    for number in range(len(clients.OPERATIONS)):
        changed = bytes([clients.CHANGED]) + b"\x00\x06" + b"\x00\x04\x07" + b"\x00\x14\xff"
        yield f"operation-{number}", bytes([number]) + 3 * good
        yield f"hindered-{number}", bytes([number]) + good + lost + good + changed + 4 * good
    yield "noise", b"\x04" + good + bytes([clients.RAW]) + b"\x00\x08" + b"\x00\x03" * 4


def _offsets() -> Seeds:
    yield "offsets", b'{"a":{"0":12,"1":-2},"q":{"7":5}}'
    yield "partitions", b'{"a":[0,1],"q":[7]}'
    yield "doubled", b'{"a":{"0":12,"0":3}}'
    yield "deep", b"[" * 4_000
    yield "digits", b'{"a":{"0":' + b"9" * 4_050 + b"}}"
    random = Random(15)
    for number in range(8):
        yield f"changed-{number}", bytes([number % 2]) + random.randbytes(3 + number % 4 * 3)


def _commands() -> Seeds:
    for one in COMMANDS:
        yield one.kind, c.encode(one)
    random = Random(11)
    for number in range(6):
        yield f"changed-{number}", b"\0" + random.randbytes(7 + 7 * number)
    yield "deep", b'{"kind":"set-settings","name":"q","token":"t","settings":{"a":' + b"[" * 900 + b"]" * 900 + b"}}"
    yield "half-a-pair", b'{"kind":"remove-node","token":"\\ud800","node":4}'


def _cluster() -> Seeds:
    saved = small_cluster().save()
    yield "small", saved
    yield "first-format", saved.replace(b'"format":2', b'"format":1')
    yield "no-object", b"[]"
    random = Random(12)
    for number in range(12):
        yield f"changed-{number}", b"\0" + random.randbytes(3 + number % 4 * 3)


def _notes() -> Seeds:
    yield "status", Status(5, 2, 1 << 40, ((GroupId(1), Term(2)), (GroupId(2), Term(2)))).encode()
    yield (
        "request",
        CALL + b'[5,"propose",{"command":"' + c.encode(c.RemoveNode(token="t", node=4)).replace(b'"', b'\\"') + b'"}]',
    )
    yield "unknown-verb", CALL + b'[5,"sing",{}]'
    yield "answer", ANSWER + b'[77,{"a":1},null]'
    yield "refusal", ANSWER + b'[77,null,["code","message",true]]'
    yield "refusal-of-nothing", ANSWER + b"[77,null,[1,2,3]]"
    yield "list", ANSWER + b"[77,[1],null]"
    yield "deep", CALL + b"[" * 3_000


def _groups() -> Seeds:
    changes: list[Change] = [*CHANGES, OffsetDropped("g", "q", 0), GroupDropped("g"), QueueForgotten("q")]
    records = []
    for number, change in enumerate(changes):
        key, value = encode_change(change)
        records.append(encode_change(change))
        yield f"record-{number}", b"\x00" + key + (b"" if value is None else b"\0" + value)
    state = small_groups()
    yield "snapshot", b"\x01" + state.save()
    yield "snapshot-torn", b"\x01" + state.save()[:-6]
    random = Random(13)
    for number in range(8):
        yield f"changed-{number}", b"\x04" + random.randbytes(3 + number % 3 * 3)
    yield "snapshot-json", b"\x02" + zlib.decompress(state.save()[1:])
    yield "subscription", b"\x03\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x02bc\xff\xff\xff\xff"
    yield "member-object", b'\x00["g","g"]\0[1,3,"consumer","range","m",true,[{}]]'


def _http() -> Seeds:
    info = {"id": 5, "host": "h", "kafka_port": 1, "http_port": 2, "peer_host": "p", "peer_port": 3, "storage": "ab" * 16}
    yield "join", b"\x00" + json.dumps({"cluster": "c", "node": info}).encode()
    yield "dry-run", b'\x00{"dry_run":true}'
    yield "number", b"\x0117"
    yield "digits", b"\x01" + b"9" * 4_090
    yield "let-in", b"\x02" + json.dumps({"incarnation": 2, "nodes": [info]}).encode()
    yield "json", b'\x03{"a":[1,-2.5e3,null,true,"\\u00e4\\ud83d\\ude00"]}'
    yield "deep", b"\x03" + b"[" * 4_000
    yield "no-number", b"\x03[NaN,1e999]"


def _folder() -> Seeds:
    peers = json.dumps({"format": 1, "peers": {"2": ["ab" * 16, "127.0.0.1", 9292], "3": ["", "h", 1]}}).encode()
    yield "whole", b"c\n1\n" + b"cd" * 16 + b"\n\0" + peers + b"\x007\n"
    yield "new", b""
    yield "no-text", b"c\n1\n\xff\n\0\xff\0\xff"
    yield "old", b"c\n1\n\0\x0012"
    yield "digits", b"c\n1\n\0\0" + b"9" * 4_090


def _settings() -> Seeds:
    yield "sample", toml.sample().encode()
    least = b'[node]\nid = 1\ndir = "/data"\n[cluster]\nid = "c"\nmembers = ["1@127.0.0.1:9292"]\n'
    yield "least", least
    yield "rack", least.replace(b"dir", b'rack = "a\\u007f"\ndir')
    yield "path", least.replace(b"/data", b"\\u0000")
    yield "deep", b"a = " + b"[" * 4_000
    yield "digits", b"a = " + b"9" * 4_090
    yield "member", least.replace(b"1@", b"9" * 4_000 + b"@")
    yield (
        "join",
        b'[node]\nid = 1\ndir = "d"\n[cluster]\nid = "c"\njoin = ["[::1]:9192"]\n[listen]\nadvertise_kafka = "h:1"\n',
    )


def _history() -> Seeds:
    events: list[dict[str, Any]] = [
        {"kind": "invoke", "op": 0, "time": 1, "process": "p", "do": "produce", "value": "v"},
        {"kind": "note", "time": 2, "what": "fault", "facts": {}},
        {"kind": "ok", "op": 0, "time": 3, "offset": 5},
        {"kind": "invoke", "op": 1, "time": 4, "process": "r", "do": "read"},
        {"kind": "ok", "op": 1, "time": 5, "records": [[5, "v", 100]]},
    ]
    lines = [json.dumps(event, separators=(",", ":")) for event in events]
    yield "short", ("\n".join(lines) + "\n").encode()
    yield "cut", "\n".join(lines).encode()[:-9]
    yield "no-text", lines[0].encode() + b"\n\xff\n"


SEEDS = {
    "client": _client,
    "cluster": _cluster,
    "commands": _commands,
    "folder": _folder,
    "frames": _frames,
    "groups": _groups,
    "history": _history,
    "http": _http,
    "journals": _journals,
    "log": _log,
    "notes": _notes,
    "offsets": _offsets,
    "partition": _partition,
    "peer": _peer,
    "raft": _raft,
    "served": _served,
    "settings": _settings,
    "spark": _spark,
    "values": _values,
}


def main() -> None:
    for target, seeds in SEEDS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
