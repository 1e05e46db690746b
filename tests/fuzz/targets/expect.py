"""How a target says that a decoder has told something that cannot be."""

from __future__ import annotations

import struct

from crc32c import crc32c


class Broken(Exception):
    """A decoder returned something that cannot be."""


def expect(truth: bool, what: str) -> None:
    """Raise Broken unless it is so."""
    if not truth:
        raise Broken(what)


def sealed(value: bytes) -> bytes:
    """A small stored value with its right checksum: no input of a fuzzer would get past it otherwise."""
    return value + struct.pack(">I", crc32c(value))
