"""Joining, and the way from one generation to the next."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.broker.groups import Failure, Identity, Leaver
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import REBALANCE_MS, SESSION_MS, Stage, identity

BOTH = (("range", b"r"), ("sticky", b"s"))


def test_first_members_share_a_generation() -> None:
    stage = Stage()
    first, second = stage.join(), stage.join()
    assert not first, "the first members wait for others"
    stage.pass_time(1_000)
    assert first.response["generation_id"] == second.response["generation_id"] == 1
    assert first.response["leader"] == second.response["leader"] == first.response["member_id"]
    assert [m["member_id"] for m in first.response["members"]] == [r.response["member_id"] for r in (first, second)]
    assert second.response["members"] == []
    assert first.response["protocol_name"] == "range"
    assert first.response["protocol_type"] == "consumer"


def test_initial_delay_is_extended_up_to_its_bound() -> None:
    stage = Stage(initial_delay_ms=100, initial_delay_max_ms=250)
    boxes = []
    for _ in range(3):
        boxes.append(stage.join())
        stage.pass_time(80)
    assert not boxes[0]
    boxes.append(stage.join())
    stage.pass_time(10)
    assert all(box.response["generation_id"] == 1 for box in boxes)


def test_without_delay_the_first_member_goes_ahead() -> None:
    assert Stage(initial_delay_ms=0).join().response["generation_id"] == 1


def test_members_from_version_4_on_ask_for_an_id_first() -> None:
    stage = Stage()
    box = stage.join(require_member_id=True)
    assert box.code == Error.MEMBER_ID_REQUIRED
    again = stage.join(box.response["member_id"], require_member_id=True)
    stage.pass_time(1_000)
    assert again.response["member_id"] == box.response["member_id"]


def test_pending_members_hold_a_rebalance_up_until_they_time_out() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.join(require_member_id=True)
    rejoined = stage.join(member["member_id"])
    assert not rejoined
    stage.pass_time(SESSION_MS)
    assert rejoined.response["generation_id"] == 2


def test_pending_member_that_never_joins_leaves_nothing_behind() -> None:
    stage = Stage()
    stage.join(require_member_id=True)
    stage.pass_time(SESSION_MS)
    assert stage.phase == "Dead"


@pytest.mark.parametrize("timeout", [0, 5_999, 1_800_001])
def test_session_timeout_bounds(timeout: int) -> None:
    assert Stage().join(session_timeout_ms=timeout).code == Error.INVALID_SESSION_TIMEOUT


def test_group_needs_a_name() -> None:
    assert Stage().join(group_id="").code == Error.INVALID_GROUP_ID


def test_unknown_member_id_is_refused() -> None:
    stage = Stage()
    assert stage.join("nobody").code == Error.UNKNOWN_MEMBER_ID
    stage.stable(1)
    assert stage.join("nobody").code == Error.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "fields", [{"protocol_type": "connect"}, {"protocols": (("other", b""),)}, {"protocols": ()}, {"protocol_type": ""}]
)
def test_inconsistent_protocols(fields: dict[str, Any]) -> None:
    stage = Stage()
    stage.stable(1)
    assert stage.join(**fields).code == Error.INCONSISTENT_GROUP_PROTOCOL


def test_protocol_is_the_one_that_all_know_and_most_prefer() -> None:
    stage = Stage()
    joins = [
        stage.join(protocols=BOTH),
        stage.join(protocols=BOTH[::-1]),
        stage.join(protocols=(("new", b"n"), *BOTH[::-1])),
    ]
    stage.pass_time(1_000)
    assert {join.response["protocol_name"] for join in joins} == {"sticky"}
    assert [m["metadata"] for m in joins[0].response["members"]] == [b"s"] * 3


def test_group_size_is_bounded() -> None:
    stage = Stage(max_group_size=2)
    stage.stable(2)
    assert stage.join().code == Error.GROUP_MAX_SIZE_REACHED


def test_new_member_rebalances_and_its_elders_hear_of_it() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    third = stage.join()
    assert not third
    assert stage.heartbeat(identity(first)) == Error.REBALANCE_IN_PROGRESS
    boxes = [stage.join(first["member_id"]), stage.join(second["member_id"]), third]
    assert {box.response["generation_id"] for box in boxes} == {2}
    assert {box.response["leader"] for box in boxes} == {first["member_id"]}


def test_rebalance_timeout_evicts_who_did_not_rejoin() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    third = stage.join()
    for _ in range(5):
        stage.pass_time(REBALANCE_MS // 5)
        stage.heartbeat(identity(first))
        stage.heartbeat(identity(second))
    assert third.response["generation_id"] == 2
    assert [m["member_id"] for m in third.response["members"]] == [third.response["member_id"]]
    assert stage.heartbeat(identity(first)) == Error.UNKNOWN_MEMBER_ID


def test_follower_that_rejoins_as_it_was_changes_nothing() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    again = stage.join(second["member_id"])
    assert again.response["generation_id"] == 1
    assert again.response["members"] == []
    assert stage.heartbeat(identity(first)) == Error.NONE


def test_follower_with_new_metadata_rebalances() -> None:
    stage = Stage()
    _, second = stage.stable(2)
    assert not stage.join(second["member_id"], protocols=(("range", b"more"),))
    assert stage.phase == "PreparingRebalance"


def test_leader_that_rejoins_rebalances() -> None:
    stage = Stage()
    first, _ = stage.stable(2)
    assert not stage.join(first["member_id"])
    assert stage.phase == "PreparingRebalance"


def test_lost_join_answer_is_given_again() -> None:
    stage = Stage()
    boxes = [stage.join(), stage.join()]
    stage.pass_time(1_000)
    for box in boxes:
        assert stage.join(box.response["member_id"]).response == box.response


def test_join_asked_twice_answers_both() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.join()
    stage.join(require_member_id=True)
    first, second = stage.join(member["member_id"]), stage.join(member["member_id"])
    assert first.code == Error.REBALANCE_IN_PROGRESS
    stage.pass_time(SESSION_MS)
    assert second.code == Error.NONE


def test_generation_is_in_the_log_before_anybody_hears_of_it() -> None:
    stage = Stage()
    stage.hold = True
    box = stage.join()
    stage.pass_time(1_000)
    assert not box
    assert len(stage.held) == 1
    stage.release()
    assert box.response["generation_id"] == 1


@pytest.mark.parametrize("failure", list(Failure))
def test_generation_that_cannot_be_stored_is_given_to_nobody(failure: Failure) -> None:
    stage = Stage()
    stage.fail = failure
    boxes = [stage.join(), stage.join()]
    stage.pass_time(1_000)
    assert [box.code for box in boxes] == [failure.code] * 2
    stage.fail = None
    box = stage.join()
    stage.pass_time(REBALANCE_MS)
    assert box.response["generation_id"] == 2, "a generation that was tried is not used again"


def test_member_that_comes_while_a_generation_is_stored_joins_the_next() -> None:
    stage = Stage()
    stage.hold = True
    first = stage.join()
    stage.pass_time(1_000)
    second = stage.join()
    stage.release()
    assert first.response["generation_id"] == second.response["generation_id"] == 2


def test_new_member_does_not_wait_for_ever() -> None:
    stage = Stage(new_member_join_ms=20_000)
    (member,) = stage.stable(1, rebalance_timeout_ms=60_000)
    box = stage.join(rebalance_timeout_ms=60_000)
    for _ in range(3):
        stage.pass_time(8_000)
        stage.heartbeat(identity(member))
    assert box.code == Error.UNKNOWN_MEMBER_ID


def test_leaving_pending_member_lets_the_rebalance_go_on() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    pending = stage.join(require_member_id=True).response["member_id"]
    box = stage.join(member["member_id"])
    assert stage.leave(Leaver(pending))["members"][0]["error_code"] == Error.NONE
    assert box.response["generation_id"] == 2
    assert stage.heartbeat(Identity(pending, 2)) == Error.UNKNOWN_MEMBER_ID
