"""How a new node comes into a running cluster: it asks over HTTP, before it takes part in anything."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

from quorate.broker.cluster.commands import MAX_INCARNATION, known_node
from quorate.broker.cluster.values import NodeInfo
from quorate.broker.json_text import read_json
from quorate.broker.node.folder import CannotStart, NodeFolder
from quorate.broker.node.settings import Endpoint, NodeSettings
from quorate.consensus.core import NodeId
from quorate.consensus.transport import Address

_JOIN_S = 30.0
_PAUSE_S = 0.5
_ANSWER_S = 15.0
_MAX_ANSWER_BYTES = 64 << 20


async def ask_to_join(settings: NodeSettings, info: NodeInfo, folder: NodeFolder) -> int:
    """Be let in; the incarnation that this node has in `@cluster`. The other nodes are remembered in the folder.

    A node that asks again, because it was stopped before it heard the answer, gets the same one. Raises CannotStart.
    """
    body = json.dumps({"cluster": settings.cluster.id, "node": info.facts()}).encode()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _JOIN_S
    trouble = ""
    while loop.time() < deadline:
        for endpoint in settings.cluster.join:
            try:
                said = await asyncio.to_thread(_post, f"http://{endpoint}/v1/nodes", body)
                return _take_in(said, folder)
            except urllib.error.HTTPError as error:
                trouble = _reason(endpoint, error)
                if error.code < 500:
                    raise CannotStart(f"{endpoint} does not let this node in: {trouble}") from error
            except OSError as error:
                trouble = f"{endpoint}: {error}"
            except (ValueError, KeyError, TypeError) as error:
                raise CannotStart(f"{endpoint} does not answer as a node of a cluster does: {error!r}") from error
        await asyncio.sleep(_PAUSE_S)
    raise CannotStart(f"no node of the cluster could be asked to let this one in: {trouble}")


def _take_in(said: object, folder: NodeFolder) -> int:
    """Remember the nodes that the answer names."""
    incarnation, nodes = let_in(said)
    for one in nodes:
        folder.learn(NodeId(one.id), one.storage, Address(one.peer_host, one.peer_port))
    return incarnation


def let_in(said: object) -> tuple[int, list[NodeInfo]]:
    """What the answer says to a node that was let in: its incarnation, and who is there. Raises ValueError."""
    match said:
        case {"incarnation": int(incarnation), "nodes": [*nodes]} if 0 < incarnation <= MAX_INCARNATION:
            return incarnation, list(map(known_node, nodes))
    raise ValueError(f"{said!r:.200} is no answer")


def _reason(endpoint: Endpoint, error: urllib.error.HTTPError) -> str:
    with error:
        text = error.read(_MAX_ANSWER_BYTES).decode(errors="replace")
    try:
        return str(read_json(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{endpoint} answers {error.code}: {text[:200]}"


def _post(url: str, body: bytes) -> object:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
        return read_json(answer.read(_MAX_ANSWER_BYTES))
