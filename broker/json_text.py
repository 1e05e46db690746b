"""JSON from outside: bytes from a socket or a disk into plain values, whatever the bytes are.

The standard library's reader raises RecursionError where a text is nested as deep as the stack allows, which differs from
caller to caller; it takes numbers that JSON does not have, and text that cannot be written in UTF-8. Replicas must
agree on what can be read, so the limits here are fixed.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 32
"""Arrays and objects within each other. What Quorate writes has fewer than ten."""


class BadJson(ValueError):
    """A text that is no JSON, or more than anybody needs to say."""


def read_json(text: bytes | str) -> Any:
    """The value of a JSON text. Raises BadJson."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        value = _READER.decode(plain)
        if "\\u" in plain:
            # Half of a surrogate pair can be escaped in JSON, and written nowhere else.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise BadJson("it is nested too deep") from error
    except ValueError as error:
        raise BadJson(str(error)) from error
    # Most texts have fewer brackets than may be within each other.
    if plain.count("[") + plain.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise BadJson("it is nested too deep")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON's")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.40} is no number that can be used")
    return value


_READER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
"""Made once: that takes longer than reading a small text."""


def _is_deeper(value: Any, most: int) -> bool:
    """Whether more than `most` arrays and objects are within each other. Level by level: no recursion."""
    level = [value]
    for _ in range(most + 1):
        level = [one for one in level if isinstance(one, (list, dict))]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True
