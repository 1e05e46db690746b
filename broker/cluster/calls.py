"""Requests between nodes, over the notes of the peer transport: a verb, a JSON body, an answer or a refusal.

A note may be lost, so every request has a deadline; what was asked may have happened all the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from quorate.broker.json_text import BadJson, read_json
from quorate.consensus.core import NodeId

_log = logging.getLogger(__name__)

Body = dict[str, Any]
Handler = Callable[[NodeId, Body], Awaitable[Body]]
Tell = Callable[[NodeId, bytes], bool]

STATUS, CALL, ANSWER = b"S", b"C", b"A"
"""The first byte of a note says what it is."""


class CallFailed(Exception):
    """A request was refused, or nothing is known of it. `definite`: it has not happened."""

    def __init__(self, code: str, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.code = code
        self.definite = definite


class Calls:
    """One node's requests and answers. A handler raises CallFailed to refuse."""

    def __init__(self, me: NodeId, tell: Tell) -> None:
        self._me = me
        self._tell = tell
        # Not from 0: an answer that a node owes an earlier life of this one must not be taken for a new one's.
        self._number = random.getrandbits(52)
        self._waiting: dict[tuple[NodeId, int], asyncio.Future[Body]] = {}
        self._handlers: dict[str, Handler] = {}
        self._serving: set[asyncio.Task[None]] = set()

    def on(self, verb: str, handler: Handler) -> None:
        """Serve a verb."""
        self._handlers[verb] = handler

    async def ask(self, node: NodeId, verb: str, body: Body, timeout_s: float) -> Body:
        """Ask a node (this one too). Raises CallFailed."""
        if node == self._me:
            return await self._ask_here(verb, body, timeout_s)
        self._number += 1
        number = self._number
        future: asyncio.Future[Body] = asyncio.get_running_loop().create_future()
        self._waiting[node, number] = future
        try:
            if not self._tell(node, CALL + json.dumps([number, verb, body]).encode()):
                raise CallFailed("unreachable", f"node {node} cannot be reached", definite=True)
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise CallFailed("no-answer", f"node {node} did not answer {verb!r} in {timeout_s} s", definite=False) from error
        finally:
            del self._waiting[node, number]

    async def _ask_here(self, verb: str, body: Body, timeout_s: float) -> Body:
        handler = self._handlers.get(verb)
        if handler is None:
            raise CallFailed("unknown-verb", f"node {self._me} does not know {verb!r}", definite=True)
        try:
            async with asyncio.timeout(timeout_s):
                return await handler(self._me, body)
        except TimeoutError as error:
            raise CallFailed("no-answer", f"{verb!r} took more than {timeout_s} s", definite=False) from error

    def hear(self, node: NodeId, note: bytes) -> None:
        """A note that begins with CALL or ANSWER has arrived."""
        try:
            said = read_json(note[1:])
        except BadJson as error:
            return _log.warning("node %s sent a note that cannot be read: %s", node, error)
        match said:
            case [int(number), str(verb), dict(body)] if note[:1] == CALL:
                task = asyncio.get_running_loop().create_task(self._serve(node, number, verb, body))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
            case [int(number), dict(body), None] if note[:1] == ANSWER:
                self._answered(node, number, body)
            case [int(number), None, [str(code), str(message), bool(definite)]] if note[:1] == ANSWER:
                self._answered(node, number, CallFailed(code, message, definite=definite))
            case _:
                _log.warning("node %s sent a note that cannot be read: %r", node, note[:200])

    def _answered(self, node: NodeId, number: int, outcome: Body | CallFailed) -> None:
        future = self._waiting.get((node, number))
        if future is None or future.done():
            return
        if isinstance(outcome, CallFailed):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    async def _serve(self, node: NodeId, number: int, verb: str, body: Body) -> None:
        answer: list[Any]
        handler = self._handlers.get(verb)
        try:
            if handler is None:
                raise CallFailed("unknown-verb", f"node {self._me} does not know {verb!r}", definite=True)
            answer = [number, await handler(node, body), None]
        except CallFailed as failure:
            answer = [number, None, [failure.code, str(failure), failure.definite]]
        self._tell(node, ANSWER + json.dumps(answer).encode())

    async def close(self) -> None:
        """Stop serving."""
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)
