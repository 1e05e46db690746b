"""What HTTP brings: bodies and paths of requests to a node, and what a node answers to one that wants to join."""

from __future__ import annotations

import json

from quorate.broker.cluster import commands as c
from quorate.broker.http.admin import AdminFailure
from quorate.broker.http.server import dry_run_of, node_number, read_object
from quorate.broker.json_text import MAX_DEPTH, BadJson, read_json
from quorate.broker.node.admin import newcomer
from quorate.broker.node.joining import let_in
from tests.fuzz.targets.expect import expect


def http(data: bytes) -> None:
    """The first byte: a request's body, a node's number, an answer to a node that joins, or any JSON."""
    if data:
        (_body, _number, _answer, _json)[data[0] % 4](data[1:])


def _body(data: bytes) -> None:
    try:
        said = read_object(data)
        dry_run_of(said)
        info = newcomer(said)
    except AdminFailure as failure:
        expect(400 <= failure.status < 500 and failure.definite, "a bad request is the client's mistake, and did nothing")
        json.dumps(failure.facts()).encode()
        return
    command = c.RegisterNode(token="t", node=info)
    expect(c.decode(c.encode(command)) == command, "a node that is let in can be written down")
    expect(info.incarnation == 0 and bool(info.storage), "it is given its incarnation, and says its storage")


def _number(data: bytes) -> None:
    try:
        number = node_number(data.decode("utf-8", "replace"))
    except AdminFailure as failure:
        expect(failure.status == 400 and len(str(failure)) < 200, "what is no number is refused in a line")
        return
    expect(0 < number < 1 << 31, "a node's number")


def _answer(data: bytes) -> None:
    try:
        incarnation, nodes = let_in(read_json(data))
    except ValueError:
        return
    expect(incarnation > 0 and all(node.id > 0 for node in nodes), "nodes and a number")


def _json(data: bytes) -> None:
    try:
        value = read_json(data)
    except BadJson:
        return
    again = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    expect(read_json(again) == value, "what was read can be written")
    expect(_depth(value) <= MAX_DEPTH, "it is not too deep")


def _depth(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
