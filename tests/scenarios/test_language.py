"""The scenario language itself: wrong scripts are told what is wrong and where, and a rewrite keeps what people wrote."""

from pathlib import Path

import pytest

from tests.scenarios.commands import COMMANDS
from tests.scenarios.language import Arguments, Mistake, ScriptError, parse
from tests.scenarios.runner import difference, play

PATH = Path("wrong.txt")
CLUSTER = "# Shows something.\n> add-nodes 3 leader=1\n"
DOCS = Path(__file__).parents[2] / "docs" / "scenarios.md"


def outputs(text: str) -> list[list[str]]:
    return play(parse(PATH, text))


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("elect 1", "there is no command 'elect'; there are add-nodes, advance, "),
        ("campaign", "campaign needs a node"),
        ("campaign one", "a node must be a whole number, not 'one'"),
        ("campaign -1", "a node must be a whole number, not '-1'"),
        ("campaign 9", "there is no node 9; there are 1 2 3"),
        ("campaign 1 2", "campaign does not understand '2'"),
        ("campaign 1 now=yes", "campaign does not understand 'now=yes'"),
        ("campaign 1 group=2", "there is no group 2; there are 1"),
        ("add-nodes 3", "the nodes are there already"),
        ("propose 1", "propose needs a text"),
        ("propose 1 a count=many", "count= must be a whole number, not 'many'"),
        ("propose 1 a count=1 count=2", "count= is given twice"),
        ("deliver type=letter", "there are no messages of type 'letter'; there are append, "),
        ("deliver from=4", "there is no node 4; there are 1 2 3"),
        ("deliver quiet together", "deliver is either quiet or together"),
        ("settle count=1", "settle delivers one message after the other until none is left: no count=, no backwards"),
        ("partition 1 2", "partition needs two sides"),
        ("partition 1 | 7", "there is no node 7; there are 1 2 3"),
        ("transfer 1", "transfer needs to="),
        ("transfer 1 to=2/x", "an incarnation must be a whole number, not 'x'"),
        ("transfer 1 to=0", "node must be in 1.."),
        ("change-members 1", "change-members needs voters="),
        ("disk slow", "a disk is manual or automatic, not 'slow'"),
        ("fail-sync 1", "node 1 has no write that could fail; use 'disk manual' first"),
        ("restart 1", "node 1 is up already"),
        ("resume 1", "node 1 is not paused"),
        ("given 1 terms=2,1", "terms= needs terms between 1 and 9 that never fall"),
        ("status 4", "there is no node 4; there are 1 2 3"),
    ],
)
def test_wrong_commands_are_explained(command: str, complaint: str) -> None:
    with pytest.raises(ScriptError) as caught:
        outputs(f"{CLUSTER}\n> {command}\n")
    assert str(caught.value).startswith(f"wrong.txt:4: {complaint}")


def test_a_command_before_there_are_nodes() -> None:
    with pytest.raises(ScriptError, match=r"^wrong\.txt:2: there is no node 1; there are none yet$"):
        outputs("# Shows something.\n> campaign 1\n")


def test_a_crashed_node_can_do_nothing() -> None:
    with pytest.raises(ScriptError, match=r"^wrong\.txt:4: node 1 is down$"):
        outputs(f"{CLUSTER}> crash 1\n> propose 1 a\n")


@pytest.mark.parametrize("command", ["add-nodes 0", "add-nodes 10"])
def test_the_number_of_nodes_is_bounded(command: str) -> None:
    with pytest.raises(ScriptError, match="between 1 and 9 nodes"):
        outputs(f"# Shows something.\n> {command}\n")


@pytest.mark.parametrize(
    ("option", "complaint"),
    [("election_ms=1", "bad setting: election_ms"), ("patience=1", "bad setting: .*patience"), ("leader=7", "no node 7")],
)
def test_wrong_settings_are_explained(option: str, complaint: str) -> None:
    with pytest.raises(ScriptError, match=rf"^wrong\.txt:2: .*{complaint}"):
        outputs(f"# Shows something.\n> add-nodes 3 {option}\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("> add-nodes 3\n", "wrong.txt:1: a scenario begins with a comment that says what it shows"),
        ("# Nothing.\n", "wrong.txt:1: there is no command; commands begin with '> '"),
        ("# Early.\nlate\n> add-nodes 3\n", "wrong.txt:2: output without a command above it: 'late'"),
        ("# Late.\n> add-nodes 3\n\nlate\n", "wrong.txt:4: output without a command above it: 'late'"),
    ],
)
def test_files_that_are_no_scenarios(text: str, complaint: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(PATH, text)
    assert str(caught.value) == complaint


def test_whatever_nobody_reads_is_a_mistake() -> None:
    arguments = Arguments("log 1 2 all=yes")
    assert arguments.number("a node") == 1
    with pytest.raises(Mistake, match="log does not understand '2 all=yes'"):
        arguments.done()


def test_a_rewrite_keeps_comments_and_replaces_output() -> None:
    script = parse(PATH, "# Shows a rewrite.\n\n> add-nodes 1\nold\nolder\n\n# Look.\n> status\n\n# The end.\n")
    assert script.render([["new"], ["newer"]]) == (
        "# Shows a rewrite.\n\n> add-nodes 1\nnew\n\n# Look.\n> status\nnewer\n\n# The end.\n"
    )


def test_a_difference_is_readable_and_names_the_flag() -> None:
    assert difference(PATH, "same\n", "same\n") == ""
    text = difference(PATH, "> status\nold\n", "> status\nnew\n")
    assert text.startswith("wrong.txt does not go as written:\n")
    assert "\n-old\n+new\n" in text
    assert "--rewrite" in text


def test_a_scenario_plays_the_same_each_time() -> None:
    text = f"{CLUSTER}> propose 1 a\n> run 500\n> crash 1\n> run 500\n> status\n"
    assert outputs(text) == outputs(text)


def test_the_documentation_names_every_command() -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    named = [row.split("`")[1].split()[0] for row in rows]
    assert sorted(named) == sorted(COMMANDS)
