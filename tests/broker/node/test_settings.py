"""A node's settings: what a file may say, and what is said about a file that is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.node import toml
from quorate.broker.node.folder import CannotStart, open_folder
from quorate.broker.node.local import local_settings
from quorate.broker.node.node import node_info
from quorate.broker.node.parts import system_time
from quorate.broker.node.settings import BadSettings, Endpoint, Member

LEAST: dict[str, dict[str, Any]] = {
    "node": {"id": 1, "dir": "/data"},
    "cluster": {"id": "c", "members": ["1@127.0.0.1:9292"]},
}


def tables(**changed: dict[str, Any]) -> dict[str, Any]:
    return {name: LEAST.get(name, {}) | changed.get(name, {}) for name in LEAST | changed}


def test_the_sample_can_be_read() -> None:
    settings = toml.from_tables(tomllib.loads(toml.sample()))
    assert settings.cluster.members == (Member(1, Endpoint("10.0.0.1", 9292)),)
    assert settings.listen.kafka == Endpoint("127.0.0.1", 9092)


def test_every_setting_has_a_text() -> None:
    assert toml.sample().count("# ") > toml.sample().count(" = ")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    settings = toml.from_tables(
        tables(
            node={"rack": 'a "rack"\x7f'},
            listen={"peer": "[::1]:7", "advertise_kafka": "proxy:1"},
            peers={"dial": ["2@127.0.0.1:5"]},
            queues={"auto_create": True},
            raft={"election_ms": 1234},
        )
    )
    file = tmp_path / "node.toml"
    file.write_text(toml.dump(settings))
    assert toml.load(file) == settings


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nodes": {}}, "there is no table named 'nodes'; did you mean 'node'?"),
        ({"raft": {"election": 3}}, r"no setting in \[raft\] named 'election'; did you mean 'election_ms'"),
        ({"raft": {"election_ms": "300"}}, "raft.election_ms must be a whole number, not '300'"),
        ({"raft": {"election_ms": True}}, "must be a whole number"),
        ({"raft": {"heartbeat_ms": 200}}, "at least twice"),
        ({"node": {"id": 0}}, "node.id must be at least 1"),
        ({"node": {"id": 2}}, "cluster.members names only"),
        ({"listen": {"kafka": "9092"}}, "listen.kafka: '9092' is no address"),
        ({"listen": {"kafka": "h:99999"}}, "is no address"),
        ({"listen": {"advertise_peer": "9092"}}, "listen.advertise_peer: '9092' is no address"),
        ({"listen": {"advertise_peer": 9092}}, "listen.advertise_peer must be a string"),
        ({"peers": {"dial": ["2@a:1", "2@b:1"]}}, r"peers\.dial names a node twice"),
        ({"cluster": {"members": ["127.0.0.1:1"]}}, "is no member: write id@host:port"),
        ({"cluster": {"members": ["9" * 5_000 + "@a:1"]}}, "is no member"),
        ({"cluster": {"members": ["1@a\0:1"]}}, "is no address"),
        ({"node": {"dir": "a\0b"}}, "is no path"),
        ({"cluster": {"members": "1@a:1"}}, "must be a list of strings"),
        ({"cluster": {"members": ["1@a:1", "1@b:1"]}}, "names a node twice"),
        ({"cluster": {"members": []}}, "either cluster.members"),
        ({"cluster": {"join": ["a:1"]}}, "either cluster.members"),
        ({"cluster": {"id": "two words"}}, "cluster.id must be"),
        ({"queues": {"auto_create": 1}}, "true or false"),
        ({"queues": {"replication": 9}}, "at most 7"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        toml.from_tables(tables(**changed))


def test_what_is_missing_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"node\.id is missing, for example id = 1"):
        toml.from_tables({})
    with pytest.raises(BadSettings, match="cannot read"):
        toml.load(tmp_path / "none.toml")
    for bad in (b"a = = 1", b"\xff", b"a = " + b"[" * 5_000, b"a = " + b"9" * 5_000):
        (tmp_path / "bad.toml").write_bytes(bad)
        with pytest.raises(BadSettings, match="is not TOML"):
            toml.load(tmp_path / "bad.toml")


def test_time_closes_on_a_local_cluster_whether_or_not_the_kernel_knows_its_clock(tmp_path: Path) -> None:
    for settings in local_settings(tmp_path, 3, 9_092, auto_create=False):
        file = tmp_path / "node.toml"
        file.write_text(toml.dump(settings))
        assert system_time(toml.load(file)).uncertainty_ms() == 10


def test_what_is_advertised() -> None:
    """A host for all listeners, or whole addresses, which have the last word."""

    def told(**listen: str) -> tuple[str, int, str, int]:
        info = node_info(toml.from_tables(tables(listen={"kafka": "127.0.0.1:1", "peer": "127.0.0.2:2"} | listen)), "")
        return info.host, info.kafka_port, info.peer_host, info.peer_port

    assert told() == ("127.0.0.1", 1, "127.0.0.2", 2)
    assert told(advertise="me") == ("me", 1, "me", 2)
    assert told(advertise="me", advertise_kafka="proxy:3") == ("proxy", 3, "me", 2)
    assert told(advertise_peer="tunnel:4") == ("127.0.0.1", 1, "tunnel", 4)


def test_a_folder_belongs_to_one_node(tmp_path: Path) -> None:
    ours = toml.from_tables(tables(node={"dir": str(tmp_path)}))
    open_folder(ours)
    open_folder(ours)
    with pytest.raises(CannotStart, match="belongs to node 1 of cluster 'c', not to node 1 of 'other'"):
        open_folder(toml.from_tables(tables(node={"dir": str(tmp_path)}, cluster={"id": "other"})))


def test_an_owner_that_was_never_written_is_written_again(tmp_path: Path) -> None:
    """As the power may have left it, when it was not synced."""
    (tmp_path / "identity").touch()
    open_folder(toml.from_tables(tables(node={"dir": str(tmp_path)})))
    assert (tmp_path / "identity").read_text().startswith("c\n1\n")
