"""LevelDB's own files as they are looked at before LevelDB does: journals, manifests; and the promise beside them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from crc32c import crc32c

from quorate.consensus.storage import journal
from quorate.consensus.storage.manifest import BadManifest, live_tables
from quorate.consensus.storage.promise import Promise
from tests.fuzz.targets.expect import expect
from tests.fuzz.targets.scratch import scratch

_HEAD: Final = struct.Struct("<IHB")
_BLOCK: Final = 32 * 1024
_SLOT: Final = struct.Struct("<8sQ")
_SLOTS: Final = (0, 512)


def journals(data: bytes) -> None:
    """The first byte: a promise, or a journal that may be a manifest, as it is or with the checksums made right."""
    if not data:
        return
    path = scratch() / "file"
    if data[0] % 4 < 2:
        content = data[1:] if data[0] % 4 else mended(data[1:])
        path.write_bytes(content)
        _journal(path, content)
    else:
        path.write_bytes(promised(data[1:]) if data[0] % 4 == 2 else data[1:])
        _promise(path)


def mended(data: bytes) -> bytes:
    """The same journal with the checksums that its records should have, as far as they can be followed."""
    content, at = bytearray(data), 0
    while at + _HEAD.size <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _HEAD.size:
            at += left
            continue
        length = _HEAD.unpack_from(content, at)[1]
        end = at + _HEAD.size + length
        crc = crc32c(bytes(content[at + _HEAD.size - 1 : end]))
        struct.pack_into("<I", content, at, ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        at = end
    return bytes(content)


def _journal(path: Path, content: bytes) -> None:
    found = journal.inspect(path)
    expect(0 <= found.whole <= found.size == len(content), "what is whole is a part of it")
    expect(found.records * _HEAD.size <= found.whole, "a record has a head")
    if found.damage is not None:
        return
    path.write_bytes(content[: found.whole])
    expect(journal.inspect(path) == (found.records, found.whole, found.whole, None), "whole without the rest")
    records = journal.records(path)
    expect(len(records) == found.records and sum(map(len, records)) <= found.whole, "the same records")
    try:
        tables = live_tables(path)
    except BadManifest:
        return
    expect(4 * len(tables) <= found.whole, "a table takes some bytes")
    expect(all(0 <= table < 1 << 70 for table in tables), "numbers are numbers")


def promised(data: bytes) -> bytes:
    """The same promise with the names and checksums that it should have."""
    content = bytearray(data.ljust(1024, b"\0")[:1024])
    for at in _SLOTS:
        struct.pack_into("<8s", content, at, b"promise1")
        slot = bytes(content[at : at + _SLOT.size])
        struct.pack_into("<I", content, at + _SLOT.size, crc32c(slot))
    return bytes(content)


def _promise(path: Path) -> None:
    promise = Promise(path)
    known = promise.counter
    expect(known is None or 0 <= known < 1 << 64, "a number or none")
    more = min((known or 0) + 1, (1 << 64) - 1)
    promise.raise_to(more)
    promise.close()
    again = Promise(path)
    expect(again.counter == more, "what was promised is found again")
    again.close()
