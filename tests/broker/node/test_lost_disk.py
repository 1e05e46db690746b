"""A node that has lost its disk has forgotten its votes: it is refused, as a whole or one replica of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from quorate.broker.node.folder import CannotStart, Peer, open_folder
from quorate.broker.node.hosting import Room
from quorate.broker.node.settings import ClusterSection, Member, NodeSection, NodeSettings
from quorate.consensus.core import GroupId, NodeId, replica_id
from quorate.consensus.storage.api import StorageFailed
from quorate.consensus.storage.settings import StorageSettings
from quorate.consensus.transport import Address
from tests.support.node_processes import Nodes, Producing, until

HERE = Address("h", 1)


def settings(folder: Path, cluster: str = "c") -> NodeSettings:
    members = (Member.parse("1@h:1"),)
    return NodeSettings(node=NodeSection(id=1, dir=folder), cluster=ClusterSection(id=cluster, members=members))


def test_a_folder_keeps_its_storage_id_and_what_it_knows_of_others(tmp_path: Path) -> None:
    folder = open_folder(settings(tmp_path))
    assert folder.admit(NodeId(2), "ab" * 16, HERE) is None
    again = open_folder(settings(tmp_path))
    assert again.storage == folder.storage
    assert again.peers == {2: Peer("ab" * 16, HERE)}
    assert again.admit(NodeId(2), "ab" * 16, HERE) is None
    assert "node 2 is known on another storage" in (again.admit(NodeId(2), "cd" * 16, HERE) or "")
    assert open_folder(settings(tmp_path / "other")).storage != folder.storage
    again.learn(NodeId(2), "ef" * 16, HERE)
    assert again.admit(NodeId(2), "ef" * 16, HERE) is None, "the metadata counts more than what was seen"
    again.forget(NodeId(2))
    assert open_folder(settings(tmp_path)).peers == {}


def test_a_folder_of_an_earlier_release_gets_a_storage_id_once(tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("c\n1\n")
    storage = open_folder(settings(tmp_path)).storage
    assert (tmp_path / "identity").read_text() == f"c\n1\n{storage}\n"
    assert open_folder(settings(tmp_path)).storage == storage


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("identity", "other\n1\n", "belongs to node 1 of cluster 'other'"),
        ("identity", "c\n1\nnonsense\n", "is no storage id"),
        ("peers", "{", "is damaged"),
        ("peers", '{"format":9,"peers":{}}', "format 9"),
        ("peers", '{"format":1,"peers":{"2":["x"]}}', "is damaged"),
        ("peers", '{"format":1,"peers":{"0":["","h",1]}}', "node '0' cannot be"),
        ("peers", '{"format":1,"peers":{"2":["zz","h",1]}}', "cannot be"),
        ("peers", '{"format":1,"peers":{"2":["","h",70000]}}', "cannot be"),
        ("peers", "[" * 100_000, "nested too deep"),
        ("peers", "\xff", "is damaged"),
        ("identity", "\xff\n1\n", "belongs to node 1 of cluster"),
        ("logs/g0-1/x", "", "holds logs but no `identity`"),
    ],
)
def test_a_damaged_folder_is_not_used(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(CannotStart, match=reason):
        open_folder(settings(tmp_path))


def test_what_cannot_be_remembered_is_not_taken_in(tmp_path: Path) -> None:
    folder = open_folder(settings(tmp_path))
    (tmp_path / "peers.new").mkdir()
    with pytest.raises(OSError, match="peers"):
        folder.admit(NodeId(2), "ab" * 16, HERE)
    (tmp_path / "peers.new").rmdir()
    assert folder.admit(NodeId(2), "cd" * 16, HERE) is None, "the first one was not remembered"


def test_a_log_that_is_missing_is_not_begun_anew(tmp_path: Path) -> None:
    room = Room(tmp_path, NodeId(1), StorageSettings())
    group, replica = GroupId(7), replica_id(1, 3)
    assert room.incarnation(group) is None
    log = room.open(group, replica, ())
    assert log is not None
    log.close()
    assert room.incarnation(group) == 3
    again = Room(tmp_path, NodeId(1), StorageSettings())
    log = again.open(group, replica, ())
    assert log is not None
    log.close()
    shutil.rmtree(room.path(group, replica))
    with pytest.raises(StorageFailed, match="was lost"):
        again.open(group, replica, ())
    assert room.incarnation(group) == 3


def test_a_log_without_a_marker_is_opened_and_marked(tmp_path: Path) -> None:
    room = Room(tmp_path, NodeId(1), StorageSettings())
    group, replica = GroupId(7), replica_id(1)
    for _ in range(2):
        log = room.open(group, replica, ())
        assert log is not None
        log.close()
        assert (tmp_path / "made" / "g7-1").exists()
        (tmp_path / "made" / "g7-1").unlink()
    room.delete(room.path(group, replica))
    assert room.open(group, replica, ()) is None


@pytest.mark.timeout(180)
def test_a_node_on_an_empty_folder_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.create("orders", 2)
        with Producing(nodes.bootstrap, "orders", 2) as producing:
            producing.await_progress()
            for node in (1, 3):
                nodes.kill(node)
                kept = tmp_path / "kept"
                nodes.home(node).rename(kept)
                before = nodes.log(node).stat().st_size
                nodes.start(node)
                assert nodes.await_end(node) == 1
                said = nodes.log(node).read_bytes()[before:].decode()
                assert "Give it another number to join with" in said
                assert "ready" not in said.splitlines()
                shutil.rmtree(nodes.home(node))
                kept.rename(nodes.home(node))
                nodes.start(node)
                nodes.await_ready(node)
            assert any("refusing node 3 at" in nodes.said(node) for node in (1, 2)), "both sides say it"
            producing.await_progress()
        producing.check(nodes.bootstrap)


@pytest.mark.timeout(180)
def test_a_replica_without_its_log_fails_alone_and_a_drain_replaces_it(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        nodes.create("orders", 1)
        (partition,) = (one for one in nodes.ask("/v1/queues")["queues"] if one["name"] == "orders")
        group = partition["partitions"][0]["group"]
        with Producing(nodes.bootstrap, "orders", 1) as producing:
            producing.await_progress()
            nodes.stop(3)
            shutil.rmtree(nodes.home(3) / "logs" / f"g{group}-1")
            nodes.start(3)
            nodes.await_ready(3)
            until(lambda: bool(nodes.ask("/v1/cluster", node=3)["failed"]), "the replica is reported")
            (failed,) = nodes.ask("/v1/cluster", node=3)["failed"]
            assert (failed["queue"], failed["partition"]) == ("orders", 0)
            assert "the replica's log was lost" in failed["reason"]
            assert not (nodes.home(3) / "logs" / f"g{group}-1").exists()
            producing.await_progress()
            nodes.start(4, join=1)
            nodes.await_ready(4)
            assert nodes.cli("drain", "3", "--timeout", "50").returncode == 0
            until(lambda: not nodes.ask("/v1/cluster", node=3)["failed"], "nothing is wrong any more")
        producing.check(nodes.bootstrap)
