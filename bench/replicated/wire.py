"""The private protocol between the benchmark's client and its nodes: length-prefixed requests, answers of one fixed size."""

from __future__ import annotations

from struct import Struct

REQUEST = Struct("<IBQQ")
"""length of what follows it, operation, request id, group; a batch may follow."""
ANSWER = Struct("<IQBqqQ")
"""length of what follows it, request id, code, offset (or leader), timestamp (or commit), term."""

LENGTH_BYTES = 4

APPEND, LEADER, USAGE = 1, 2, 3

OK = 0
NOT_LEADING = 1
"""The offset says which node leads, or 0."""
REFUSED = 2
"""Definite: it did not happen."""
UNCERTAIN = 3


def request(operation: int, number: int, group: int, size: int = 0) -> bytes:
    """The head of a request whose batch has `size` bytes."""
    return REQUEST.pack(REQUEST.size - LENGTH_BYTES + size, operation, number, group)


def answer(number: int, code: int, offset: int = 0, timestamp: int = 0, term: int = 0) -> bytes:
    """An answer."""
    return ANSWER.pack(ANSWER.size - LENGTH_BYTES, number, code, offset, timestamp, term)
