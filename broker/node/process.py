"""The process of a node: from its settings to its exit code."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import sys
from collections.abc import Awaitable

from quorate.broker.http.server import HttpListener
from quorate.broker.kafka.listener import KafkaListener
from quorate.broker.kafka.settings import ListenerSettings
from quorate.broker.node.admin import NodeAdmin
from quorate.broker.node.backend import NodeBackend
from quorate.broker.node.folder import CannotStart, NodeFolder, kept_to_itself, open_folder
from quorate.broker.node.local import READY
from quorate.broker.node.node import Node
from quorate.broker.node.parts import Parts
from quorate.broker.node.settings import Endpoint, NodeSettings
from quorate.consensus.runtime import new_event_loop, next_boot, tune_process

_log = logging.getLogger(__name__)

_CLOSE_MS = 1_000
"""For requests that are under way when the listener closes. What this node led is led elsewhere by then: who still waits
waits for a majority that is gone."""


def run_node(settings: NodeSettings, log_level: str = "info", parts: Parts | None = None) -> int:
    """Run a node until SIGTERM or SIGINT. Prints `ready` when it takes requests; returns the exit code.

    `parts` is for nodes under test (`under_test`).
    """
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr
    )
    logging.getLogger("quorate.consensus.runtime.driver").setLevel(logging.WARNING)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        # Before anything else: a second process would be taken for this node by the others.
        with kept_to_itself(settings.node.dir, f"node {settings.node.id}"):
            folder = open_folder(settings)
            boot = next_boot(folder.path)
            tune_process()
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(_serve(settings, folder, boot, parts))
    except (CannotStart, ValueError) as error:
        _log.error("%s", error)
        return 1


async def _serve(settings: NodeSettings, folder: NodeFolder, boot: int, parts: Parts | None) -> int:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    node = Node(settings, folder, boot, parts)
    kafka = KafkaListener(NodeBackend(node), _listener_settings(settings))
    http = HttpListener(NodeAdmin(node))
    await node.find_place()
    # Before the other nodes can make this one a leader: clients that find a closed port try it again only after a pause.
    await _listen(kafka.start(*_at(settings.listen.kafka), held=True), "Kafka", settings.listen.kafka)
    try:
        await node.start()
    except CannotStart:
        await kafka.close()
        raise
    kafka.begin()
    work = loop.create_task(node.run())
    ending = loop.create_task(over.wait())
    try:
        await _listen(http.start(*_at(settings.listen.http)), "HTTP", settings.listen.http)
        await _until_ready(node, work, ending)
        if node.ready:
            print(READY, flush=True)
            _log.info("node %s of cluster %s is ready", node.id, settings.cluster.id)
        await asyncio.wait([work, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        # While clients are still answered: they learn who leads now, instead of a closed port with a leader behind it.
        await node.hand_over()
        await kafka.close()
        await http.close()
        failure = await _end(work)
        await node.close()
    if isinstance(failure, BaseExceptionGroup) and (reasons := failure.subgroup(CannotStart)) is not None:
        raise CannotStart("; ".join(map(str, _leaves(reasons))))
    if failure is not None:
        _log.error("the node has stopped because of this", exc_info=failure)
        return 1
    return 0


def _at(endpoint: Endpoint) -> tuple[str, int]:
    return endpoint.host, endpoint.port


async def _listen(starting: Awaitable[object], name: str, endpoint: Endpoint) -> None:
    try:
        await starting
    except OSError as error:
        raise CannotStart(f"cannot listen on {endpoint} for {name} clients: {error.strerror}") from error


async def _until_ready(node: Node, work: asyncio.Task[None], ending: asyncio.Task[bool]) -> None:
    ready = asyncio.ensure_future(node.is_ready.wait())
    await asyncio.wait([ready, work, ending], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()


async def _end(work: asyncio.Task[None]) -> BaseException | None:
    """Stop the node's own work; what it failed with, if it did."""
    work.cancel()
    await asyncio.wait([work])
    return None if work.cancelled() else work.exception()


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions in a group, however deep."""
    nested = (_leaves(one) if isinstance(one, BaseExceptionGroup) else [one] for one in group.exceptions)
    return [one for several in nested for one in several]


def _listener_settings(settings: NodeSettings) -> ListenerSettings:
    kafka = settings.kafka
    return ListenerSettings(
        max_connections=kafka.max_connections,
        max_connections_per_ip=kafka.max_connections,
        max_request_bytes=kafka.max_request_bytes,
        max_command_bytes=kafka.max_command_bytes,
        idle_ms=kafka.idle_s * 1000,
        close_ms=_CLOSE_MS,
        auto_create=settings.queues.auto_create,
    )
