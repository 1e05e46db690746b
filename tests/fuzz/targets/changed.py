"""JSON that is whole and says something else: a few of its values are replaced by others, or taken away.

Bytes that change at random are hardly ever JSON; what contradicts itself in good JSON would not be found by them.
"""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from typing import Any, Final

_STEP: Final = struct.Struct(">HB")
"""Which value, and what becomes of it."""
_MOST: Final = 6
_NUMBERS = (0, 1, 2, 3, 5, 9, -1, 1 << 31, 1 << 32, (1 << 32) + 1, (4 << 32) + 2, 1 << 64)
_TEXTS = ("", "a", "q", "g", "1", "ab" * 16, "retention.ms", "draining", "\N{GRINNING FACE}")
_OTHERS: Final[tuple[Any, ...]] = (*_NUMBERS, *_TEXTS, 1.5, True, False, None, [], {}, [1], [[1, 2]], {"a": 1}, [1, 2, 3])
Places = list[tuple[Any, Any]]


def changed(text: bytes, data: bytes) -> bytes:
    """This JSON text, changed as `data` says."""
    whole = [json.loads(text)]
    for where, how in list(_STEP.iter_unpack(data[: len(data) // _STEP.size * _STEP.size]))[:_MOST]:
        places = _places(whole)
        container, key = places[where % len(places)]
        if how < 2 * len(_OTHERS):
            container[key] = deepcopy(_OTHERS[how % len(_OTHERS)])
        elif how < 128:
            other, name = places[(where >> 8) * 31 % len(places)]
            container[key] = deepcopy(other[name])
        elif container is not whole and how < 192:
            del container[key]
        elif isinstance(container, list) and container is not whole:
            container.append(deepcopy(container[key]))
        elif isinstance(container[key], int):
            container[key] += 1 - 2 * (how & 1)
    return json.dumps(whole[0]).encode()


def _places(whole: list[Any]) -> Places:
    """Every value with what it stands in, from outside in."""
    found: Places = [(whole, 0)]
    for container, key in found:
        inner = container[key]
        if isinstance(inner, dict):
            found += [(inner, name) for name in inner]
        elif isinstance(inner, list):
            found += [(inner, index) for index in range(len(inner))]
    return found
