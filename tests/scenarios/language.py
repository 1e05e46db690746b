"""The language of the scenarios: how a file is cut into blocks, and how a command's words are read.

What the commands do is in `commands`. A mistake in a script is told with its file and line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from quorate.consensus.core import ReplicaId, replica_id

PROMPT = "> "


class Mistake(Exception):
    """A script asks for something that makes no sense. The runner adds where."""


class ScriptError(Exception):
    """A mistake, with the file and the line of the command."""


@dataclass
class Block:
    """One command, what stands above it (comments, blank lines), and the output that is expected."""

    line: int
    above: list[str]
    command: str
    expected: list[str] = field(default_factory=list)


@dataclass
class Script:
    """A scenario: blocks, and whatever follows the last one."""

    path: Path
    blocks: list[Block]
    below: list[str]

    def render(self, outputs: list[list[str]]) -> str:
        """The file with these outputs in place of the expected ones. Comments and blank lines stay as they are."""
        lines: list[str] = []
        for block, output in zip(self.blocks, outputs, strict=True):
            lines += [*block.above, PROMPT + block.command, *output]
        return "\n".join([*lines, *self.below]).rstrip() + "\n"


def parse(path: Path, text: str) -> Script:
    """Cut a scenario into blocks. It begins with a comment that says what it shows."""
    blocks: list[Block] = []
    above: list[str] = []
    if not text.startswith("# "):
        raise ScriptError(f"{path.name}:1: a scenario begins with a comment that says what it shows")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(PROMPT):
            blocks.append(Block(number, above, line.removeprefix(PROMPT).strip()))
            above = []
        elif not line.strip() or line.startswith("#"):
            above.append(line)
        elif blocks and not above:
            blocks[-1].expected.append(line)
        else:
            raise ScriptError(f"{path.name}:{number}: output without a command above it: {line!r}")
    if not blocks:
        raise ScriptError(f"{path.name}:1: there is no command; commands begin with '{PROMPT}'")
    return Script(path, blocks, above)


class Arguments:
    """The words of one command. Whoever reads them takes them; what is left at the end is a mistake."""

    def __init__(self, command: str) -> None:
        name, *rest = command.split() or [""]
        self.name = name
        self._words: list[str] = []
        self._options: dict[str, str] = {}
        for word in rest:
            key, equals, value = word.partition("=")
            if not equals:
                self._words.append(word)
            elif key in self._options:
                raise Mistake(f"{key}= is given twice")
            else:
                self._options[key] = value

    def word(self, what: str) -> str:
        """The next word, which must be there."""
        if not self._words:
            raise Mistake(f"{self.name} needs {what}")
        return self._words.pop(0)

    def words(self) -> list[str]:
        """All words that are left."""
        words, self._words = self._words, []
        return words

    def flag(self, name: str) -> bool:
        """Whether this word is among those that are left."""
        if name in self._words:
            self._words.remove(name)
            return True
        return False

    def number(self, what: str) -> int:
        """The next word, as a whole number."""
        return number(self.word(what), what)

    def option(self, name: str) -> str | None:
        return self._options.pop(name, None)

    def number_option(self, name: str) -> int | None:
        """The value of `name=`, as a whole number."""
        value = self.option(name)
        return None if value is None else number(value, f"{name}=")

    def replicas(self, name: str) -> list[ReplicaId] | None:
        """The value of `name=`: replicas, separated by commas."""
        value = self.option(name)
        if value is None:
            return None
        return [replica(word) for word in value.split(",") if word]

    def rest(self) -> dict[str, str]:
        """All options that are left."""
        options, self._options = self._options, {}
        return options

    def done(self) -> None:
        """Complain about whatever nobody read."""
        left = self._words + [f"{key}={value}" for key, value in self._options.items()]
        if left:
            raise Mistake(f"{self.name} does not understand {' '.join(left)!r}")


def number(word: str, what: str) -> int:
    """A whole number that is not negative."""
    if not word.isdecimal():
        raise Mistake(f"{what} must be a whole number, not {word!r}")
    return int(word)


def replica(word: str) -> ReplicaId:
    """`2` is the first replica of node 2, `2/3` is its third incarnation."""
    node, slash, incarnation = word.partition("/")
    try:
        return replica_id(number(node, "a replica's node"), number(incarnation, "an incarnation") if slash else 1)
    except ValueError as error:
        raise Mistake(str(error)) from None
