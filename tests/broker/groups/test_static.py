"""Static members: they have an instance id, and may go away and come back within their session."""

from __future__ import annotations

from quorate.broker.groups import Failure, Identity, Leaver, Response
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import REBALANCE_MS, SESSION_MS, Stage, identity, work_of


def two(stage: Stage) -> tuple[Response, Response]:
    boxes = [stage.join(group_instance_id="a"), stage.join(group_instance_id="b")]
    stage.pass_time(1_000)
    joins = [box.response for box in boxes]
    stage.divide(joins)
    return joins[0], joins[1]


def test_comes_back_with_its_work_and_without_a_rebalance() -> None:
    stage = Stage()
    leader, old = two(stage)
    new = stage.join(group_instance_id="b").response
    assert new["generation_id"] == 1
    assert new["member_id"] != old["member_id"]
    assert stage.sync(new).response["assignment"] == work_of(old)
    assert stage.heartbeat(identity(leader, "a")) == Error.NONE


def test_old_id_is_fenced() -> None:
    stage = Stage()
    _, old = two(stage)
    stage.join(group_instance_id="b")
    assert stage.heartbeat(identity(old, "b")) == Error.FENCED_INSTANCE_ID
    assert stage.commit_offset(1, identity(old, "b")).code == Error.FENCED_INSTANCE_ID
    assert stage.join(old["member_id"], group_instance_id="b").code == Error.FENCED_INSTANCE_ID
    assert stage.heartbeat(identity(old)) == Error.UNKNOWN_MEMBER_ID
    assert stage.heartbeat(Identity(old["member_id"], 1, "c")) == Error.UNKNOWN_MEMBER_ID


def test_leader_that_comes_back_does_not_divide_again() -> None:
    stage = Stage()
    old, _ = two(stage)
    new = stage.join(group_instance_id="a").response
    assert (new["leader"], new["members"], new["skip_assignment"]) == (old["member_id"], [], False)
    newer = stage.join(group_instance_id="a", can_skip_assignment=True).response
    assert newer["leader"] == newer["member_id"]
    assert newer["skip_assignment"]
    assert len(newer["members"]) == 2


def test_replacement_is_in_the_log_before_it_is_told() -> None:
    stage = Stage(2)
    _, old = two(stage)
    stage.hold = True
    box = stage.join(group_instance_id="b")
    assert not box
    stage.release()
    new = box.response
    stage.fail_over(1)
    assert stage.heartbeat(identity(new, "b")) == Error.NONE
    assert stage.heartbeat(identity(old, "b")) == Error.FENCED_INSTANCE_ID


def test_replacement_that_cannot_be_stored() -> None:
    stage = Stage()
    two(stage)
    stage.fail = Failure.REFUSED
    assert stage.join(group_instance_id="b").code == Error.COORDINATOR_NOT_AVAILABLE
    stage.fail = None
    assert stage.join(group_instance_id="b").code == Error.NONE


def test_other_metadata_rebalances() -> None:
    stage = Stage()
    two(stage)
    assert not stage.join(group_instance_id="b", protocols=(("range", b"more"),))
    assert stage.phase == "PreparingRebalance"


def test_waiting_request_of_the_old_id_is_fenced() -> None:
    stage = Stage()
    first = stage.join(group_instance_id="a")
    second = stage.join(group_instance_id="a")
    assert first.code == Error.FENCED_INSTANCE_ID
    stage.pass_time(1_000)
    assert second.code == Error.NONE


def test_stays_a_member_through_rebalances_within_its_session() -> None:
    stage = Stage()
    boxes = [stage.join(group_instance_id="a"), stage.join(group_instance_id="b", session_timeout_ms=20 * SESSION_MS)]
    stage.pass_time(1_000)
    stage.divide([box.response for box in boxes])
    member = stage.join(boxes[0].response["member_id"], group_instance_id="a")
    stage.pass_time(REBALANCE_MS)
    assert len(member.response["members"]) == 2


def test_leaves_by_instance_id() -> None:
    stage = Stage()
    _, old = two(stage)
    response = stage.leave(Leaver("", "c"), Leaver("x", "b"), Leaver("", "b"))
    assert [m["error_code"] for m in response["members"]] == [
        Error.UNKNOWN_MEMBER_ID,
        Error.FENCED_INSTANCE_ID,
        Error.NONE,
    ]
    assert stage.heartbeat(identity(old, "b")) == Error.UNKNOWN_MEMBER_ID


def test_needs_no_id_first() -> None:
    assert not Stage().join(group_instance_id="a", require_member_id=True)
