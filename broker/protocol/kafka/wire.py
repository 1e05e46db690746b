"""The primitive types: reading them out of a view with every length checked first, and writing them to a bytearray.

A read takes (view, at) and returns (value, where the next one begins). Running off the end may show as IndexError or
struct.error; `malformed` turns those into BadMessage once, around a whole message.
"""

from __future__ import annotations

import struct
from types import TracebackType
from typing import Final

from quorate.broker.protocol.kafka.errors import BadMessage, BadValue

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
MAX_STRING: Final = 0x7FFF  # compact strings too: no peer accepts longer ones
MAX_VARINT_BYTES: Final = 5

Buffer = bytes | bytearray | memoryview


class _Malformed:
    """One object serves all blocks: it remembers nothing, and a generator for each would cost as much as a header."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            return
        if isinstance(error, (IndexError, struct.error)):
            raise BadMessage("the message ends too early") from error
        if isinstance(error, UnicodeDecodeError):
            raise BadMessage("a string is not UTF-8") from error


_MALFORMED: Final = _Malformed()


def malformed() -> _Malformed:
    """What reading past the end, or text that is none, raises is BadMessage outside of this block."""
    return _MALFORMED


def read_uvarint(view: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    byte: int = view[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for place in range(1, MAX_VARINT_BYTES):
        byte = view[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, at + place + 1
    raise BadMessage("a varint is longer than 32 bits")


def read_length(view: memoryview, at: int, flexible: bool, *, short: bool = False) -> tuple[int, int]:
    """The length before a string (`short`: 16 bits), bytes or an array: -1 is null. Not yet compared with what remains."""
    if flexible:
        byte = view[at]
        if byte < 0x80:  # nearly all of them
            return byte - 1, at + 1
        length, at = read_uvarint(view, at)
        return length - 1, at
    if short:
        (length,) = INT16.unpack_from(view, at)
        at += 2
    else:
        (length,) = INT32.unpack_from(view, at)
        at += 4
    if length < -1:
        raise BadMessage(f"a length is {length}")
    return length, at


def read_count(view: memoryview, at: int, flexible: bool, smallest: int) -> tuple[int, int]:
    """The length of an array whose elements take at least `smallest` bytes each, and fit into what remains. -1 is null."""
    count, at = read_length(view, at, flexible)
    if count * smallest > len(view) - at:
        raise BadMessage(f"an array of {count} does not fit into the {len(view) - at} bytes that remain")
    return count, at


def read_string(view: memoryview, at: int, flexible: bool) -> tuple[str | None, int]:
    """A string, or None for null."""
    length, at = read_length(view, at, flexible, short=True)
    if length < 0:
        return None, at
    end = at + length
    if length > MAX_STRING or end > len(view):
        raise BadMessage(f"a string of {length} bytes does not fit into the {len(view) - at} that remain")
    return str(view[at:end], "utf-8"), end


def read_view(view: memoryview, at: int, flexible: bool) -> tuple[memoryview | None, int]:
    """Bytes as a part of the view, not copied, or None for null."""
    length, at = read_length(view, at, flexible)
    if length < 0:
        return None, at
    end = at + length
    if end > len(view):
        raise BadMessage(f"{length} bytes do not fit into the {len(view) - at} that remain")
    return view[at:end], end


def read_name(view: memoryview, at: int, flexible: bool) -> tuple[str, int]:
    """A string that must not be null."""
    value, at = read_string(view, at, flexible)
    if value is None:
        raise BadMessage("a string is null and must not be")
    return value, at


def skip_tags(view: memoryview, at: int) -> int:
    """Past a section of tagged fields, none of which is looked at."""
    if not view[at]:
        return at + 1
    count, at = read_uvarint(view, at)
    for _ in range(count):
        _, at = read_uvarint(view, at)
        size, at = read_uvarint(view, at)
        if size > len(view) - at:
            raise BadMessage(f"a tagged field of {size} bytes does not fit into the {len(view) - at} that remain")
        at += size
    return at


def at_end(view: memoryview, at: int) -> None:
    """Nothing may follow a body: what does was meant for another version, or is no request at all."""
    if at != len(view):
        raise BadMessage(f"{len(view) - at} bytes follow the message")


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_length(out: bytearray, length: int, flexible: bool, *, short: bool = False) -> None:
    """The length before a string (`short`: 16 bits), bytes or an array: -1 is null."""
    if flexible:
        if length < 0x7F:
            out.append(length + 1)
        else:
            write_uvarint(out, length + 1)
    elif short:
        out += INT16.pack(length)
    else:
        out += INT32.pack(length)


def write_string(out: bytearray, value: str | None, flexible: bool) -> None:
    if value is None:
        write_length(out, -1, flexible, short=True)
        return
    data = value.encode()
    if len(data) > MAX_STRING:
        raise BadValue(f"a string of {len(data)} bytes is too long")
    if flexible and len(data) < 0x7F:
        out.append(len(data) + 1)
    else:
        write_length(out, len(data), flexible, short=True)
    out += data


def write_bytes(out: bytearray, value: Buffer | None, flexible: bool) -> None:
    if value is None:
        write_length(out, -1, flexible)
        return
    write_length(out, len(value), flexible)
    out += value
