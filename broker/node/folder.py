"""A node's folder: whose it is, the storage id that it was made with, and which storage each other node was met with.

A node that has lost its disk has forgotten its votes. It is told from the one that it was by its storage id, drawn when the
folder was made: the others remember it, durably, before they take a word of it in.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from quorate.broker.cluster.commands import MAX_NODE
from quorate.broker.cluster.state import lost_disk
from quorate.broker.json_text import read_json
from quorate.broker.node.settings import NodeSettings
from quorate.consensus.core import NodeId
from quorate.consensus.storage.folder import sync_folder
from quorate.consensus.transport import Address
from quorate.consensus.transport.handshake import STORAGE_BYTES

_log = logging.getLogger(__name__)
_FORMAT = 1


class CannotStart(RuntimeError):
    """The node cannot run. The text says what to do about it."""


class Peer(NamedTuple):
    """Another node as it was met last."""

    storage: str
    """In hex; empty while it was never met."""
    address: Address


class NodeFolder:
    """The folder of one node. Use `open_folder`."""

    def __init__(self, path: Path, storage: str, peers: dict[NodeId, Peer]) -> None:
        self.path = path
        self.storage = storage
        self.peers = peers
        """The other nodes, as a node needs them before it has read any metadata."""
        self._saved = True

    def admit(self, node: NodeId, storage: str, address: Address) -> str | None:
        """Why a node on this storage must not be taken in, or None: then it is remembered. Raises OSError."""
        known = self.peers.get(node)
        if known is not None and known.storage:
            return None if known.storage == storage else lost_disk(node)
        self.peers[node] = Peer(storage, address)
        try:
            self._save()
        except OSError:
            # What is not on disk is not remembered.
            self.peers[node] = Peer("", address)
            raise
        return None

    def learn(self, node: NodeId, storage: str, address: Address) -> None:
        """The metadata says so, which counts more than what was seen here."""
        known = self.peers.get(node)
        peer = Peer(storage or (known.storage if known is not None else ""), address)
        if peer != known or not self._saved:
            self.peers[node] = peer
            self._try_to_save()

    def forget(self, node: NodeId) -> None:
        """The node was removed."""
        if self.peers.pop(node, None) is not None:
            self._try_to_save()

    def _try_to_save(self) -> None:
        self._saved = False
        try:
            self._save()
        except OSError as error:
            _log.warning("the other nodes' addresses are not saved now: %s", error)

    def _save(self) -> None:
        said = {str(node): [peer.storage, *peer.address] for node, peer in sorted(self.peers.items())}
        write_durably(self.path / "peers", json.dumps({"format": _FORMAT, "peers": said}))
        self._saved = True


def write_durably(path: Path, text: str) -> None:
    """Replace a small file as a whole; when this returns it is on disk."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


@contextmanager
def kept_to_itself(path: Path, user: str) -> Iterator[None]:
    """Let no other process use a folder meanwhile. Raises CannotStart, which says that `user` has it already."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / "lock").open("w")
    except OSError as error:
        raise CannotStart(f"cannot use {path}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStart(f"{path} is in use: {user} runs there already") from error
        yield


def open_folder(settings: NodeSettings) -> NodeFolder:
    """The node's folder, which must belong to this node of this cluster; a new one is made. Raises CannotStart."""
    path = settings.node.dir
    try:
        path.mkdir(parents=True, exist_ok=True)
        return NodeFolder(path, _storage(path, settings.cluster.id, settings.node.id), _read_peers(path / "peers"))
    except OSError as error:
        raise CannotStart(f"cannot use {path}: {error.strerror}") from error


def _storage(path: Path, cluster: str, node: int) -> str:
    """The folder's storage id, drawn if it has none."""
    mark = path / "identity"
    # What is no text becomes marks of a replacement, which are no identity.
    found = mark.read_text("utf-8", "replace") if mark.exists() else ""
    if found:
        owner, number, *more = (*found.split("\n"), "")
        if (owner, number) != (cluster, str(node)):
            raise CannotStart(
                f"{path} belongs to node {number[:40]} of cluster {owner[:80]!r}, not to node {node} of {cluster!r}"
            )
        storage = more[0] if more else ""
        if storage and not _is_storage(storage):
            raise CannotStart(f"{mark} is damaged: {storage[:40]!r} is no storage id")
        if storage:
            return storage
    elif any(path.glob("logs/g0-*")):
        raise CannotStart(f"{path} holds logs but no `identity`: whose they are cannot be told, so they are not used")
    storage = secrets.token_hex(STORAGE_BYTES)
    write_durably(mark, f"{cluster}\n{node}\n{storage}\n")
    return storage


def _is_storage(text: str) -> bool:
    return re.fullmatch(rf"[0-9a-f]{{{2 * STORAGE_BYTES}}}", text) is not None


def _read_peers(path: Path) -> dict[NodeId, Peer]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    # A peer that were left out here would be believed after it has lost its disk.
    try:
        match read_json(text):
            case {"format": int(form), "peers": dict(peers)} if form == _FORMAT:
                return dict(_read_peer(node, peer) for node, peer in peers.items())
            case {"format": form}:
                raise ValueError(f"it is in format {form!r:.40}, and {_FORMAT} is known")
        raise ValueError("it does not say its format")
    except ValueError as error:
        raise CannotStart(f"{path} is damaged: {error}") from error


def _read_peer(node: str, peer: object) -> tuple[NodeId, Peer]:
    match peer:
        case [str(storage), str(host), int(port)] if not storage or _is_storage(storage):
            if re.fullmatch("[1-9][0-9]{0,9}", node) and int(node) <= MAX_NODE and 0 <= port < 1 << 16:
                return NodeId(int(node)), Peer(storage, Address(host, port))
    raise ValueError(f"node {node[:40]!r} cannot be {peer!r:.200}")
