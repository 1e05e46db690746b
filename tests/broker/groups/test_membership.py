"""Sync, heartbeats, leaving, and sessions that end."""

from __future__ import annotations

import pytest

from quorate.broker.groups import Failure, Identity, Leaver
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import REBALANCE_MS, SESSION_MS, Stage, identity, work_of


def joined(stage: Stage, members: int = 2) -> list[dict[str, object]]:
    boxes = [stage.join() for _ in range(members)]
    stage.pass_time(1_000)
    return [box.response for box in boxes]


def test_sync_waits_for_the_leader_and_for_the_log() -> None:
    stage = Stage()
    first, second = joined(stage)
    follower = stage.sync(second)
    assert not follower
    stage.hold = True
    leader = stage.sync(first, {str(second["member_id"]): b"all of it"})
    assert not leader
    assert not follower
    stage.release()
    assert follower.response["assignment"] == b"all of it"
    assert follower.response["protocol_name"] == "range"
    assert leader.response["assignment"] == b""
    assert stage.phase == "Stable"


def test_sync_in_a_stable_group_returns_the_assignment() -> None:
    stage = Stage()
    for member in stage.stable(2):
        assert stage.sync(member).response["assignment"] == work_of(member)


@pytest.mark.parametrize("failure", list(Failure))
def test_assignment_that_cannot_be_stored_is_given_to_nobody(failure: Failure) -> None:
    stage = Stage()
    first, second = joined(stage)
    stage.fail = failure
    boxes = [stage.sync(second), stage.sync(first, {})]
    assert [box.code for box in boxes] == [failure.code] * 2
    stage.fail = None
    assert stage.phase == "PreparingRebalance"


def test_leader_that_syncs_twice_stores_once() -> None:
    stage = Stage()
    (first,) = joined(stage, 1)
    stage.hold = True
    lost, second = stage.sync(first, {str(first["member_id"]): b"a"}), stage.sync(first, {str(first["member_id"]): b"b"})
    assert len(stage.held) == 1
    assert lost.code == Error.REBALANCE_IN_PROGRESS
    stage.release()
    assert second.response["assignment"] == b"a"


def test_sync_is_checked() -> None:
    stage = Stage()
    first, second = joined(stage)
    assert stage.sync({**first, "generation_id": 0}).code == Error.ILLEGAL_GENERATION
    assert stage.sync({**first, "member_id": "x"}).code == Error.UNKNOWN_MEMBER_ID
    assert stage.sync(second, protocol_type="connect").code == Error.INCONSISTENT_GROUP_PROTOCOL
    assert stage.sync(second, protocol_name="sticky").code == Error.INCONSISTENT_GROUP_PROTOCOL
    assert not stage.sync(second, protocol_type="consumer", protocol_name="range")
    assert Stage().sync(first).code == Error.UNKNOWN_MEMBER_ID


def test_rebalance_sends_syncs_back() -> None:
    stage = Stage()
    _, second = joined(stage)
    box = stage.sync(second)
    stage.join()
    assert box.code == Error.REBALANCE_IN_PROGRESS
    assert stage.sync(second).code == Error.REBALANCE_IN_PROGRESS


def test_rebalance_while_an_assignment_is_stored_wins() -> None:
    stage = Stage()
    (first,) = joined(stage, 1)
    stage.hold = True
    box = stage.sync(first, {})
    stage.join()
    stage.release()
    assert box.code == Error.REBALANCE_IN_PROGRESS
    assert stage.phase == "PreparingRebalance"


def test_members_that_never_sync_are_removed() -> None:
    stage = Stage()
    first, second = joined(stage)
    for _ in range(5):
        stage.pass_time(REBALANCE_MS // 5)
        stage.heartbeat(identity(first))
        stage.heartbeat(identity(second))
    assert stage.heartbeat(identity(second)) == Error.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_session() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    for _ in range(5):
        stage.pass_time(SESSION_MS - 1)
        assert stage.heartbeat(identity(first)) == Error.NONE
        assert stage.heartbeat(identity(second)) == Error.NONE
    stage.pass_time(SESSION_MS - 1)
    stage.heartbeat(identity(first))
    stage.pass_time(1)
    assert stage.heartbeat(identity(second)) == Error.UNKNOWN_MEMBER_ID
    assert stage.heartbeat(identity(first)) == Error.REBALANCE_IN_PROGRESS


def test_heartbeat_is_checked() -> None:
    stage = Stage()
    assert stage.heartbeat(Identity("x", 1)) == Error.UNKNOWN_MEMBER_ID
    (member,) = stage.stable(1)
    assert stage.heartbeat(Identity(member["member_id"], 7)) == Error.ILLEGAL_GENERATION
    assert stage.heartbeat(Identity("x", 1)) == Error.UNKNOWN_MEMBER_ID


def test_group_whose_members_expire_is_empty_and_keeps_its_generation() -> None:
    stage = Stage()
    stage.stable(2)
    stage.pass_time(10 * REBALANCE_MS)
    assert stage.phase == "Empty"
    stage.fail_over()
    assert stage.phase == "Empty"
    (member,) = stage.stable(1)
    assert member["generation_id"] == 3


def test_leaving_starts_a_rebalance() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    response = stage.leave(Leaver(second["member_id"]))
    assert response["error_code"] == Error.NONE
    assert response["members"] == [{"member_id": second["member_id"], "group_instance_id": None, "error_code": 0}]
    assert stage.join(first["member_id"]).response["generation_id"] == 2


def test_members_leave_in_batches() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    response = stage.leave(Leaver(first["member_id"]), Leaver("x"), Leaver(second["member_id"]))
    assert [m["error_code"] for m in response["members"]] == [Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.NONE]
    assert response["error_code"] == Error.NONE
    assert stage.phase == "Empty"


def test_old_leave_has_its_error_at_the_top() -> None:
    assert Stage().leave(Leaver("x"), batched=False)["error_code"] == Error.UNKNOWN_MEMBER_ID


def test_leaving_answers_what_the_member_waits_for() -> None:
    stage = Stage()
    stage.stable(1)
    box = stage.join()
    member_id = stage.describe()["members"][1]["member_id"]
    stage.leave(Leaver(member_id))
    assert box.code == Error.UNKNOWN_MEMBER_ID
