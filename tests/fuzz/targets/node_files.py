"""A node's own files: its settings, and what it keeps beside its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quorate.broker.node import toml
from quorate.broker.node.folder import CannotStart, open_folder
from quorate.broker.node.settings import BadSettings, NodeSettings
from quorate.consensus.runtime.boot import next_boot
from tests.fuzz.targets.expect import expect
from tests.fuzz.targets.scratch import scratch

_NAMES = ("identity", "peers", "boot")


def _settings(path: str) -> NodeSettings:
    said: dict[str, Any] = {"node": {"id": 1, "dir": path}, "cluster": {"id": "c", "members": ["1@127.0.0.1:9292"]}}
    return toml.from_tables(said)


def folder(data: bytes) -> None:
    """The three small files of a node's folder, divided by zero bytes; one that is empty is not there."""
    path = scratch()
    for name, content in zip(_NAMES, data.split(b"\0", 2), strict=False):
        if content:
            (path / name).write_bytes(content)
    _opened(_settings(str(path)))
    _booted(path)


def _opened(settings: NodeSettings) -> None:
    try:
        found = open_folder(settings)
    except CannotStart as error:
        expect(len(str(error)) < 1_000, "what is wrong is said in a line")
        return
    expect(len(bytes.fromhex(found.storage)) == 16, "a folder has a storage id")
    found._save()
    again = open_folder(settings)
    expect((again.storage, again.peers) == (found.storage, found.peers), "what was read is found again")


def _booted(path: Path) -> None:
    try:
        boot = next_boot(path)
    except ValueError as error:
        expect(len(str(error)) < 400, "what is wrong is said in a line")
        return
    expect(0 < boot <= 10**18, "a boot fits what other nodes are told")
    if boot < 10**18:
        expect(next_boot(path) == boot + 1, "a boot is one more than the last")


def settings(data: bytes) -> None:
    """A file of settings."""
    try:
        found = toml.from_tables(toml.parse(data))
    except BadSettings as error:
        expect(bool(str(error)), "what is wrong is said")
        return
    expect(toml.from_tables(toml.parse(toml.dump(found).encode())) == found, "what was read can be written")
