"""The picture of a run as inline SVG: faults, rates, latency, every process's operations, and who leads what."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final, NamedTuple

from quorate.chaos.history import Action, History, Operation, Place

WIDTH: Final = 1180
_LEFT: Final = 150
_RIGHT: Final = 16
_ROW: Final = 17
_GAP: Final = 30
_BINS: Final = 180
_COLOURS: Final = {"ok": "var(--ok)", "info": "var(--info)", "fail": "var(--fail)", "open": "var(--info)"}
_WORST: Final = ("info", "open", "fail", "ok")
_WRITES: Final = frozenset({Action.PRODUCE, Action.COMMIT, Action.CREATE, Action.GROW, Action.DELETE})
_LATENCIES_MS: Final = (1, 10, 100, 1000, 10_000)
_MOST_PARTITIONS: Final = 24


class Band(NamedTuple):
    """A fault from its beginning to its end, in seconds."""

    kind: str
    text: str
    first_s: float
    last_s: float


@dataclass(frozen=True)
class Scale:
    """From time to place. `zero_ns` is when the clients began."""

    zero_ns: int
    end_s: float

    def seconds(self, time_ns: int) -> float:
        return (time_ns - self.zero_ns) / 1e9

    def x(self, second: float) -> float:
        share = min(max(second / self.end_s, 0.0), 1.0)
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def bin(self, time_ns: int) -> int:
        return min(max(int(self.seconds(time_ns) / self.end_s * _BINS), 0), _BINS - 1)

    def bin_x(self, number: int) -> float:
        return self.x(number * self.end_s / _BINS)


def scale_of(history: History) -> Scale:
    """From the first operation of the clients to the last event."""
    begins = [note.time_ns for note in history.notes if note.what == "begin"]
    times = [one.ended_ns or one.began_ns for one in history.operations] + [note.time_ns for note in history.notes]
    zero = min(begins or times or [0])
    return Scale(zero, max((max(times, default=zero) - zero) / 1e9, 1.0))


def faults_of(history: History, scale: Scale) -> list[Band]:
    """Every fault. One that was never said to end lasts to the end."""
    bands: list[Band] = []
    begun: dict[tuple[str, str], list[float]] = defaultdict(list)
    for note in history.notes:
        if note.what != "fault":
            continue
        kind, text, second = str(note.facts["kind"]), str(note.facts["text"]), scale.seconds(note.time_ns)
        if note.facts["phase"] == "begin":
            begun[kind, text].append(second)
        else:
            same = next((key for key in begun if key[0] == kind and text.startswith(key[1]) and begun[key]), None)
            bands.append(Band(kind, text, begun[same].pop(0) if same else second, second))
    bands += [Band(kind, text, first, scale.end_s) for (kind, text), firsts in begun.items() for first in firsts]
    return sorted(bands, key=lambda band: band.first_s)


def draw(history: History, anomalous: Iterable[int] = ()) -> str:
    """The whole picture. Operations that show an anomaly are marked."""
    scale = scale_of(history)
    return _Picture(history, scale, set(anomalous)).svg()


class _Picture:
    def __init__(self, history: History, scale: Scale, anomalous: set[int]) -> None:
        self._history = history
        self._scale = scale
        self._anomalous = anomalous
        self._parts: list[str] = []
        self._y = 16.0
        self._bands = faults_of(history, scale)

    def svg(self) -> str:
        top = self._y
        self._faults()
        self._rates()
        self._latency()
        self._processes()
        self._leaders()
        self._axis()
        shades = [
            f'<rect class="shade" x="{self._scale.x(band.first_s)}" y="{top}" height="{self._y - top:.0f}" '
            f'width="{max(self._scale.x(band.last_s) - self._scale.x(band.first_s), 1):.1f}"/>'
            for band in self._bands
        ]
        marks = [
            f'<line class="mark" x1="{x}" x2="{x}" y1="{top}" y2="{self._y:.0f}"/>'
            for x in sorted(
                {self._scale.x(self._scale.seconds(self._history.operations[one].began_ns)) for one in self._anomalous}
            )
        ]
        body = "\n".join([*shades, *self._parts, *marks])
        size = f'viewBox="0 0 {WIDTH} {self._y + 34:.0f}"'
        return f'<svg {size} role="img" aria-label="Timeline of the run" xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'

    # Small pieces.

    def _heading(self, text: str) -> None:
        self._parts.append(f'<text class="heading" x="0" y="{self._y:.0f}">{escape(text)}</text>')
        self._y += 8

    def _label(self, text: str, y: float) -> None:
        shown = text if len(text) <= 22 else f"{text[:9]}…{text[-12:]}"
        title = f"<title>{escape(text)}</title>" if shown != text else ""
        self._parts.append(f'<text class="label" x="{_LEFT - 8}" y="{y:.1f}">{title}{escape(shown)}</text>')

    def _bar(self, first_s: float, last_s: float, y: float, height: float, colour: str, title: str) -> None:
        x = self._scale.x(first_s)
        width = max(self._scale.x(last_s) - x, 1.5)
        self._parts.append(
            f'<rect x="{x}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="2" fill="{colour}">'
            f"<title>{escape(title)}</title></rect>"
        )

    def _frame(self, height: float) -> None:
        x, width = _LEFT, WIDTH - _LEFT - _RIGHT
        self._parts.append(f'<rect class="frame" x="{x}" y="{self._y:.1f}" width="{width}" height="{height}"/>')

    # The rows, from the top.

    def _faults(self) -> None:
        self._heading("faults")
        kinds = sorted({band.kind for band in self._bands})
        for kind in kinds:
            self._label(kind, self._y + 12)
            for band in self._bands:
                if band.kind == kind:
                    title = f"{kind} {band.text}, {band.first_s:.1f} s to {band.last_s:.1f} s"
                    self._bar(band.first_s, band.last_s, self._y + 2, _ROW - 4, "var(--fault)", title)
            self._y += _ROW
        if not kinds:
            self._label("none", self._y + 12)
            self._y += _ROW
        self._y += _GAP

    def _rates(self) -> None:
        self._heading("writes per second, by outcome")
        height = 90.0
        counts: list[Counter[str]] = [Counter() for _ in range(_BINS)]
        for one in self._history.operations:
            if one.action in _WRITES:
                counts[self._scale.bin(one.ended_ns or one.began_ns)][one.outcome] += 1
        highest = max((sum(count.values()) for count in counts), default=0) or 1
        per_s = _BINS / self._scale.end_s
        self._frame(height)
        self._label(f"{highest * per_s:.0f}", self._y + 10)
        self._label("0", self._y + height)
        for number, count in enumerate(counts):
            self._stack(number, count, highest, height, per_s)
        self._y += height + _GAP

    def _stack(self, number: int, count: Counter[str], highest: int, height: float, per_s: float) -> None:
        x, width = self._scale.bin_x(number), self._scale.bin_x(1) - self._scale.bin_x(0)
        y = self._y + height
        for outcome in ("ok", "fail", "info", "open"):
            if count[outcome]:
                tall = count[outcome] / highest * height
                y -= tall
                title = (
                    f"{self._scale.end_s * number / _BINS:.1f} s: {count[outcome] * per_s:.0f} per second {_word(outcome)}"
                )
                self._parts.append(
                    f'<rect x="{x}" y="{y:.1f}" width="{width:.1f}" height="{tall:.1f}" fill="{_COLOURS[outcome]}">'
                    f"<title>{title}</title></rect>"
                )

    def _latency(self) -> None:
        self._heading("time to an acknowledged write: half of them (line), the slowest (dots)")
        height = 90.0
        times: list[list[float]] = [[] for _ in range(_BINS)]
        for one in self._history.operations:
            if one.action in _WRITES and one.outcome == "ok" and one.ended_ns is not None and one.process != "end":
                times[self._scale.bin(one.began_ns)].append(max((one.ended_ns - one.began_ns) / 1e6, 0.1))
        self._frame(height)
        for level in _LATENCIES_MS:
            y = self._y + _up(level, height)
            text = f"{level} ms" if level < 1000 else f"{level // 1000} s"
            self._label(text, y + 4)
            self._parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        middle = []
        for number, found in enumerate(times):
            if found:
                found.sort()
                x = self._scale.bin_x(number) + 3
                middle.append(f"{x:.1f},{self._y + _up(found[len(found) // 2], height):.1f}")
                title = f"{self._scale.end_s * number / _BINS:.1f} s: slowest {found[-1]:.0f} ms of {len(found)}"
                y = self._y + _up(found[-1], height)
                self._parts.append(f'<circle class="slow" cx="{x:.1f}" cy="{y:.1f}" r="2"><title>{title}</title></circle>')
        self._parts.append(f'<polyline class="middle" points="{" ".join(middle)}"/>')
        self._y += height + _GAP

    def _processes(self) -> None:
        self._heading("operations by process; the worst outcome of each moment")
        by_process: dict[str, list[Operation]] = defaultdict(list)
        for one in self._history.operations:
            by_process[one.process].append(one)
        for process, operations in by_process.items():
            self._label(process, self._y + 12)
            for number, count in _bins(operations, self._scale):
                worst = next(outcome for outcome in _WORST if count[outcome])
                first = number * self._scale.end_s / _BINS
                title = f"{process}, {first:.1f} s: " + ", ".join(
                    f"{many} {_word(one)}" for one, many in sorted(count.items())
                )
                self._bar(first, first + self._scale.end_s / _BINS, self._y + 2, _ROW - 4, _COLOURS[worst], title)
            for one in operations:
                if one.number in self._anomalous:
                    x = self._scale.x(self._scale.seconds(one.began_ns))
                    title = f"<title>operation {one.number} shows an anomaly</title>"
                    self._parts.append(
                        f'<circle class="bad" cx="{x}" cy="{self._y + _ROW / 2:.1f}" r="4.5">{title}</circle>'
                    )
            self._y += _ROW
        self._y += _GAP

    def _leaders(self) -> None:
        self._heading("leader of each partition")
        spans: dict[Place, list[tuple[float, int, int]]] = defaultdict(list)
        for note in self._history.notes:
            if note.what == "leader":
                place = Place(str(note.facts["topic"]), int(note.facts["partition"]))
                spans[place].append((self._scale.seconds(note.time_ns), int(note.facts["node"]), int(note.facts["epoch"])))
        for place in sorted(spans)[:_MOST_PARTITIONS]:
            self._label(str(place), self._y + 12)
            changes = [*spans[place], (self._scale.end_s, 0, 0)]
            for (first, node, epoch), (last, _, _) in pairwise(changes):
                title = f"{place}: node {node}, epoch {epoch}, from {first:.1f} s"
                self._bar(first, last, self._y + 1, _ROW - 3, f"var(--node-{(node - 1) % 6})", title)
                if self._scale.x(last) - self._scale.x(first) > 14:
                    x = self._scale.x(first) + 4
                    self._parts.append(f'<text class="inside" x="{x:.1f}" y="{self._y + 12:.1f}">{node}</text>')
            self._y += _ROW
        if len(spans) > _MOST_PARTITIONS:
            self._label(f"and {len(spans) - _MOST_PARTITIONS} more", self._y + 12)
            self._y += _ROW

    def _axis(self) -> None:
        self._y += 6
        step = next((one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if self._scale.end_s / one <= 16), 1800)
        for second in range(0, int(self._scale.end_s) + 1, step):
            x = self._scale.x(second)
            self._parts.append(f'<line class="tick" x1="{x}" x2="{x}" y1="{self._y:.0f}" y2="{self._y + 5:.0f}"/>')
            self._parts.append(f'<text class="axis" x="{x}" y="{self._y + 18:.0f}">{second} s</text>')


def _bins(operations: Iterable[Operation], scale: Scale) -> Iterator[tuple[int, Counter[str]]]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for one in operations:
        counts[scale.bin(one.began_ns)][one.outcome] += 1
    yield from sorted(counts.items())


def _up(milliseconds: float, height: float) -> float:
    """From a latency to a height, by powers of ten: the lowest line is 0.5 ms, the highest 30 s."""
    share = (math.log10(milliseconds) - math.log10(0.5)) / (math.log10(30_000) - math.log10(0.5))
    return height - min(max(share, 0.0), 1.0) * height


def _word(outcome: str) -> str:
    return {"ok": "happened", "fail": "refused", "info": "in doubt", "open": "never answered"}[outcome]
