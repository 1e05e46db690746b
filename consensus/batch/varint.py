"""Zigzag varints, as records use them: seven bits a byte, lowest first, the sign in the lowest bit.

Both readers stop after the bytes a 32 or 64 bit number can have, so a run of 0x80 is refused and never followed.
"""

from __future__ import annotations

from typing import Final

from quorate.consensus.batch.errors import BadBatch, Reason
from quorate.consensus.core.types import Buffer

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


def read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """A 32 bit number that begins at `at`, and where the next thing begins. Nothing at `end` or after it is read."""
    value, after = read_unsigned(data, at, end, 32)
    return (value >> 1) ^ -(value & 1), after


def read_varlong(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """As `read_varint`, 64 bits."""
    value, after = read_unsigned(data, at, end, 64)
    return (value >> 1) ^ -(value & 1), after


def read_unsigned(data: Buffer, at: int, end: int, bits: int) -> tuple[int, int]:
    """The same, before the sign is taken out of the lowest bit."""
    value = shift = 0
    for place in range(at, end):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                raise BadBatch(Reason.VARINT, at, f"a varint holds more than {bits} bits")
            return value, place + 1
        shift += 7
        if shift >= bits:
            raise BadBatch(Reason.VARINT, at, f"a varint of {bits} bits does not end")
    raise BadBatch(Reason.TRUNCATED, end, f"a varint that begins at {at} is cut off")


def _encode(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(map(_encode, range(8192)))
"""Lengths and deltas of one and two bytes, made once."""


def encode_varint(value: int) -> bytes:
    """The bytes of a number of up to 64 bits; numbers of 32 bits have the same bytes either way. Raises BadBatch."""
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    if not INT64_MIN <= value <= INT64_MAX:
        raise BadBatch(Reason.VARINT, 0, f"{value} does not fit 64 bits")
    return _encode(value)
