"""The queues that a consumer subscribes to, out of the metadata with which it joins."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever its name

_HEAD = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed(metadata: bytes) -> set[str] | None:
    """The names in a ConsumerProtocolSubscription, whose beginning is the same in all versions; None if it is none."""
    try:
        _, count = _HEAD.unpack_from(metadata)
        at = _HEAD.size
        # A name has two bytes at least: a huge count is refused before the loop.
        if not 0 <= count <= (len(metadata) - at) // _LENGTH.size:
            return None
        names = set[str]()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if not 0 <= length <= len(metadata) - at:
                return None
            names.add(metadata[at : at + length].decode())
            at += length
    except (StructError, UnicodeDecodeError):
        return None
    return names
