"""What a user may choose about a client. Validated here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from quorate.client.errors import BadSettings
from quorate.client.values import Address

_MIB: Final = 1 << 20
_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client behaves. Only `bootstrap` is needed: some nodes, by which it finds all the others."""

    bootstrap: str | Sequence[str]
    """`host:port`, several with commas between them or as a list."""
    client_id: str = "quorate-client"
    """What the nodes' logs call this client."""
    connect_timeout_ms: int = 10_000
    """How long one connection may take; also how long a client that has reached nobody yet goes on trying."""
    request_timeout_ms: int = 30_000
    """How long one request may go without an answer; then its connection is given up."""
    retry_ms: int = 120_000
    """How long operations that are safe to repeat are repeated, at other nodes too. 0: never."""
    max_connections: int = 16
    """To one node, for requests that need a connection of their own: fetches and long polls. More of them wait."""
    max_answer_bytes: int = 128 * _MIB
    """A larger answer is taken for garbage."""
    check_crcs: bool = True
    """Compare the checksum of every fetched batch. Costs about 50 us per MiB."""

    def __post_init__(self) -> None:
        addresses(self.bootstrap)
        # Users come with anything, whatever the annotations say.
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        if not isinstance(values["client_id"], str) or not values["client_id"]:
            raise BadSettings(f"client_id must be a text, not {self.client_id!r}")
        if not isinstance(values["check_crcs"], bool):
            raise BadSettings(f"check_crcs must be true or false, not {self.check_crcs!r}")
        for name, least in _LEAST.items():
            value = values[name]
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise BadSettings(f"{name} must be a whole number and at least {least}, not {value!r}")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap nodes."""
        return addresses(self.bootstrap)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings by name. Raises BadSettings for a name that there is not."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(values.keys() - set(known))
        if unknown:
            raise BadSettings(f"there is no setting {', '.join(map(repr, unknown))}; there are {', '.join(known)}")
        if "bootstrap" not in values:
            raise BadSettings("bootstrap is missing: host:port of at least one node")
        return cls(**values)


_LEAST: Final = {
    "connect_timeout_ms": 1,
    "request_timeout_ms": 1,
    "retry_ms": 0,
    "max_connections": 1,
    "max_answer_bytes": _MIB,
}


def addresses(bootstrap: object) -> tuple[Address, ...]:
    """The addresses in a bootstrap setting (a text or several), each once. Raises BadSettings."""
    if isinstance(bootstrap, str):
        words = bootstrap.split(",")
    elif isinstance(bootstrap, Sequence) and all(isinstance(word, str) for word in bootstrap):
        words = [str(word) for word in bootstrap]
    else:
        raise BadSettings(f"bootstrap must be a text or a list of texts, not {bootstrap!r}")
    found = tuple(dict.fromkeys(_address(word.strip()) for word in words if word.strip()))
    if not found:
        raise BadSettings("bootstrap is empty: host:port of at least one node")
    return found


def _address(word: str) -> Address:
    host, colon, port = word.rpartition(":")
    bare = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bare else host
    if not colon or not host or (":" in host and not bare) or not (port.isascii() and port.isdigit()):
        raise BadSettings(f"bootstrap: {word!r} is not host:port")
    if not 1 <= int(port) <= _LARGEST_PORT:
        raise BadSettings(f"bootstrap: {word!r} has no port between 1 and {_LARGEST_PORT}")
    return Address(host, int(port))
