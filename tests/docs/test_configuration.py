"""docs/configuration.md is what the settings say: `quorate node --reference > docs/configuration.md` makes it so again."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.broker.cluster.queue_settings import SETTINGS
from quorate.broker.node.reference import markdown
from quorate.broker.node.settings import SECTIONS
from quorate.cli.main import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == markdown(), "run: quorate node --reference > docs/configuration.md"


def test_the_command_prints_it() -> None:
    result = CliRunner().invoke(main, ["node", "--reference"])
    assert (result.exit_code, result.output) == (0, markdown())


@pytest.mark.parametrize("table", SECTIONS)
def test_every_setting_of_a_node_is_there(table: str) -> None:
    section = markdown().split(f"## [{table}]")[1].split("## ")[0]
    for one in SECTIONS[table].declared():
        assert f"| `{one.name}` |" in section
        assert one.metadata["doc"] in section


def test_every_setting_of_a_queue_is_there() -> None:
    section = markdown().split("## Settings of a queue")[1]
    for one in SETTINGS.values():
        assert f"| `{one.name}` | `{one.default}` | {one.rule.words} | {one.doc} |" in section
