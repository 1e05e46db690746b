"""Settings shared by all tests: command-line options and the hypothesis profiles."""

import os

import pytest
from hypothesis import settings

DEFAULT_SIM_SEEDS = 300
DEFAULT_CRASH_ROUNDS = 200
DEFAULT_KILL_ROUNDS = 3
DEFAULT_SPARK_KILL_SEEDS = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("quorate")
    group.addoption(
        "--sim-seeds",
        type=int,
        default=DEFAULT_SIM_SEEDS,
        metavar="N",
        help=f"how many seeds the simulator tests run (default {DEFAULT_SIM_SEEDS})",
    )
    group.addoption(
        "--crash-rounds",
        type=int,
        default=DEFAULT_CRASH_ROUNDS,
        metavar="N",
        help=f"how often the storage tests kill a writer, and how often its power goes out (default {DEFAULT_CRASH_ROUNDS})",
    )
    group.addoption(
        "--kill-rounds",
        type=int,
        default=DEFAULT_KILL_ROUNDS,
        metavar="N",
        help=f"how often the client tests kill a node under load (default {DEFAULT_KILL_ROUNDS})",
    )
    group.addoption(
        "--spark-kill-seeds",
        type=int,
        default=DEFAULT_SPARK_KILL_SEEDS,
        metavar="N",
        help="with how many seeds Spark's driver and a broker are killed at steps of a micro-batch "
        f"(default {DEFAULT_SPARK_KILL_SEEDS}; each takes two starts of Spark)",
    )
    group.addoption("--spark-kill-seed0", type=int, default=0, metavar="K", help="the first of these seeds (default 0)")
    group.addoption(
        "--sabotage-all",
        action="store_true",
        default=False,
        help="chaos runs that must find nothing are as many, and as long, as those that must find a planted bug",
    )
    group.addoption(
        "--broker",
        choices=("quorate", "kafka"),
        default="quorate",
        help="whom the client tests talk to; kafka: Apache Kafka from Maven Central, to prove the tests themselves",
    )
    group.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="scenario tests write the output they see into tests/scenarios/*.txt; read the diff before you keep it",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Wall-clock deadlines per example fail on a busy machine; pytest-timeout guards against hanging.
    settings.register_profile("quorate", deadline=None, print_blob=True)
    settings.register_profile("quorate-ci", deadline=None, print_blob=True, derandomize=True)
    # --hypothesis-profile, when given, has the last word.
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("quorate-ci" if os.environ.get("CI") else "quorate")


@pytest.fixture(scope="session")
def sim_seeds(request: pytest.FixtureRequest) -> int:
    """How many seeds a simulator test runs."""
    seeds = request.config.getoption("--sim-seeds")
    assert isinstance(seeds, int)
    return seeds


@pytest.fixture(scope="session")
def crash_rounds(request: pytest.FixtureRequest) -> int:
    """How often a storage test crashes its writer."""
    rounds = request.config.getoption("--crash-rounds")
    assert isinstance(rounds, int)
    return rounds


@pytest.fixture(scope="session")
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenario tests store what they see as the new expectation."""
    return bool(request.config.getoption("--rewrite"))
