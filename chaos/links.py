"""Network links that can be broken: each is a proxy of a toxiproxy server, driven with toxiproxy-python.

A peer link is the one connection of a pair of nodes, which the lower id dials; a client link leads to one node's Kafka
listener. Each direction is broken by itself.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar

from quorate.chaos.ports import free_port

T = TypeVar("T")

_lock = threading.Lock()
"""toxiproxy-python keeps the server's address in a class: one call at a time, whichever server it goes to."""


class Stream(Enum):
    """A direction through a link, as its dialer sees it."""

    UP = "upstream"
    """From the dialer: a client, or the node with the lower id."""
    DOWN = "downstream"


BOTH: Final = (Stream.UP, Stream.DOWN)


class Key(NamedTuple):
    """Which link: (0, node) for clients of a node, (lower, higher) for a pair of nodes."""

    dialer: int
    node: int

    def __str__(self) -> str:
        return f"{self.dialer or 'clients'}-{self.node}"


def client_key(node: int) -> Key:
    """The link from clients to a node."""
    return Key(0, node)


def peer_key(one: int, other: int) -> Key:
    """The link of a pair."""
    return Key(min(one, other), max(one, other))


def stream_from(source: int, to: int) -> Stream:
    """The direction in which `source` sends to `to` on their link."""
    return Stream.UP if source < to else Stream.DOWN


@dataclass(frozen=True, slots=True)
class Toxic:
    """Something bad that happens to what flows through a link."""

    type: str
    attributes: Mapping[str, int]
    streams: tuple[Stream, ...] = BOTH


DROP: Final = Toxic("timeout", {"timeout": 0})
"""Nothing comes through, and nobody is told. When it is taken away the connections that were hit are closed."""


class Links:
    """All links of one system. Coroutines, because toxiproxy-python blocks."""

    def __init__(self, port: int) -> None:
        """`port` is the toxiproxy server's, on loopback."""
        self._port = port
        self._proxies: dict[Key, Any] = {}
        self._numbers = itertools.count(1)

    @property
    def keys(self) -> Sequence[Key]:
        return list(self._proxies)

    async def add(self, key: Key, upstream: str) -> str:
        """Make a link to an address; where to dial instead of it."""
        # Not a port that the kernel chooses: a link that is closed for a while would lose it to somebody's connection.
        listen = f"127.0.0.1:{free_port()}"

        def make(api: Any) -> str:
            proxy = self._proxies[key] = api.create(upstream=upstream, name=str(key), listen=listen)
            return str(proxy.listen)

        return await self._do(make)

    async def remove(self, key: Key) -> None:
        """There is no such link any more."""
        proxy = self._proxies.pop(key)
        await self._do(lambda _: proxy.destroy())

    async def poison(self, keys: Sequence[Key], toxic: Toxic) -> Sequence[tuple[Key, str]]:
        """Let this happen on these links; what `cure` takes to end it."""

        def add(_: Any) -> list[tuple[Key, str]]:
            made = []
            for key, stream in itertools.product(keys, toxic.streams):
                name = f"{toxic.type}-{next(self._numbers)}"
                self._proxies[key].add_toxic(
                    type=toxic.type, name=name, stream=stream.value, attributes=dict(toxic.attributes), toxicity=1.0
                )
                made.append((key, name))
            return made

        return await self._do(add)

    async def cure(self, made: Sequence[tuple[Key, str]]) -> None:
        """End what `poison` began."""

        def remove(_: Any) -> None:
            from toxiproxy.exceptions import NotFound

            for key, name in made:
                try:
                    self._proxies[key].destroy_toxic(name)
                except NotFound:
                    continue  # `heal` was faster

        await self._do(remove)

    async def refuse(self, keys: Sequence[Key]) -> None:
        """Close these links: connections break at once, and new ones are refused."""
        await self._do(lambda _: [self._proxies[key].disable() for key in keys])

    async def accept(self, keys: Sequence[Key]) -> None:
        """Open these links again."""
        await self._do(lambda _: [self._proxies[key].enable() for key in keys])

    async def heal(self) -> None:
        """Open every link, and let nothing bad happen on any."""
        await self._do(lambda api: api.reset())

    async def _do(self, call: Callable[[Any], T]) -> T:
        return await asyncio.to_thread(self._call, call)

    def _call(self, call: Callable[[Any], T]) -> T:
        from toxiproxy import Toxiproxy

        with _lock:
            api = Toxiproxy()
            api.update_api_consumer("127.0.0.1", self._port)
            return call(api)


def pairs(nodes: Sequence[int]) -> Iterator[Key]:
    """Every pair of these nodes."""
    return (peer_key(one, other) for one, other in itertools.combinations(sorted(nodes), 2))


def between(ones: Sequence[int], others: Sequence[int]) -> list[Key]:
    """Every link from one side to the other."""
    return [peer_key(one, other) for one in ones for other in others]
