"""The checkers: one anomaly per file, each a pure function of a history."""

from quorate.chaos.checkers import (
    commit_back,
    duplicate,
    false_fail,
    group_skipped,
    lost,
    metadata,
    order,
    reader,
    replicas,
    stale,
    time_back,
    two_values,
    uncommitted,
)
from quorate.chaos.checkers.api import Anomaly, Checker, Found, Verdict, judge

CHECKERS: dict[str, Checker] = {
    module.CHECKER.name: module.CHECKER
    for module in (
        lost,
        duplicate,
        two_values,
        reader,
        uncommitted,
        time_back,
        order,
        commit_back,
        group_skipped,
        replicas,
        false_fail,
        stale,
        metadata,
    )
}
"""Every checker by its name, in the order of reports."""

__all__ = ["CHECKERS", "Anomaly", "Checker", "Found", "Verdict", "judge"]
