"""report.html: one file that needs nothing else. The verdicts and what shows them, the timeline, how to run it again."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Final

from quorate.chaos.checkers import Anomaly, Verdict
from quorate.chaos.history import Action, History, Operation
from quorate.chaos.runner import Result
from quorate.chaos.timeline import Scale, draw, faults_of, scale_of

FILE: Final = "report.html"
_SHOWN: Final = 20
"""Anomalies of each checker that are listed; the number of all of them is there, and the history has the rest."""
_RECORDS: Final = 6

_STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2330; --dim: #667085; --line: #d9dee7; --panel: #f6f7f9;
  --ok: #3d9970; --info: #e0a100; --fail: #7f8ea3; --fault: #b4488a; --bad: #d0342c; --shade: #b4488a1a;
  --node-0: #4c78a8; --node-1: #59a14f; --node-2: #f28e2b; --node-3: #9c755f; --node-4: #76b7b2; --node-5: #af7aa1; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --text: #e4e8ef; --dim: #98a2b3; --line: #323a47;
  --panel: #1c222c; --ok: #4fb286; --fail: #75839a; --shade: #d06bab26; } }
body { margin: 0 auto; max-width: 1180px; padding: 24px 20px 60px; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 17px; margin: 34px 0 10px; }
.banner { border-radius: 8px; padding: 16px 20px; color: #fff; background: var(--ok); }
.banner.bad { background: var(--bad); } .banner p { margin: 4px 0 0; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--dim); }
td, th { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; width: 90px; padding-right: 24px; }
.word { border-radius: 4px; padding: 1px 8px; color: #fff; background: var(--ok); white-space: nowrap; }
.word.bad { background: var(--bad); } .word.none { background: var(--fail); }
code, pre { font: 13px/1.5 ui-monospace, monospace; } pre { background: var(--panel); padding: 12px; border-radius: 6px;
  overflow-x: auto; white-space: pre-wrap; margin: 6px 0; }
details { margin: 8px 0; } summary { cursor: pointer; } .dim { color: var(--dim); }
.chart { overflow-x: auto; } svg { width: 100%; min-width: 860px; height: auto; font: 11px system-ui, sans-serif; }
svg text { fill: var(--text); } svg .label { text-anchor: end; fill: var(--dim); } svg .heading { font-weight: 600; }
svg .axis { text-anchor: middle; fill: var(--dim); } svg .inside { fill: #fff; font-size: 10px; }
svg .frame { fill: none; stroke: var(--line); } svg .grid, svg .tick { stroke: var(--line); }
svg .shade { fill: var(--shade); } svg .middle { fill: none; stroke: var(--node-0); stroke-width: 1.5; }
svg .slow { fill: var(--fault); opacity: .65; } svg .bad { fill: var(--bad); stroke: #fff; }
svg .mark { stroke: var(--bad); stroke-dasharray: 3 3; }
.legend span { margin-right: 18px; white-space: nowrap; } .legend i { display: inline-block; width: 11px; height: 11px;
  border-radius: 2px; margin-right: 6px; }
"""

_LEGEND: Final = (
    ("var(--ok)", "happened"),
    ("var(--fail)", "refused, did not happen"),
    ("var(--info)", "in doubt"),
    ("var(--fault)", "fault"),
    ("var(--bad)", "shows an anomaly"),
)


def write_report(folder: Path, history: History, result: Result) -> Path:
    """Write it beside the history; where it is."""
    path = folder / FILE
    path.write_text(render(history, result))
    return path


def render(history: History, result: Result) -> str:
    """The whole page."""
    run = next((note.facts for note in history.notes if note.what == "run"), {})
    scale = scale_of(history)
    shown = {
        one for verdict in result.verdicts for anomaly in verdict.found.anomalies[:_SHOWN] for one in anomaly.operations
    }
    legend = "".join(f'<span><i style="background:{colour}"></i>{text}</span>' for colour, text in _LEGEND)
    logs = (
        ""
        if not run
        else "<p>Beside this page: <code>history.jsonl</code>, and the nodes' own logs in <code>logs/</code>.</p>"
    )
    title = f"chaos: {escape(str(run.get('workload', 'a history')))}"
    parts = [
        _banner(history, result, run),
        "<h2>Run it again</h2>",
        f"<pre>{escape(str(run.get('command', '')))}</pre>",
        f"<pre>quorate chaos check {escape(str(run.get('folder', '.')))}</pre>{logs}",
        "<h2>Verdicts</h2>",
        _verdicts(result.verdicts),
        "<h2>Timeline</h2>",
        f'<p class="legend">{legend}</p><div class="chart">{draw(history, shown)}</div>',
        *(_anomalies(verdict, history, scale) for verdict in result.verdicts if not verdict.good),
        "<h2>Faults</h2>",
        _faults(history, scale),
        "<h2>Operations</h2>",
        _operations(history),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'


def _banner(history: History, result: Result, run: dict[str, Any]) -> str:
    count = sum(len(verdict.found.anomalies) for verdict in result.verdicts)
    if count:
        said = f"{count} anomal{'y' if count == 1 else 'ies'} found"
    else:
        said = "No anomaly found" if result.good else "No anomaly found, but the run proves less than it should"
    nemesis = ", ".join(run.get("nemesis", ())) or "no nemesis"
    facts = (
        f"workload {run.get('workload', '?')} · {nemesis} · {run.get('seconds', 0):g} s · seed {run.get('seed', '?')} · "
        f"{len(history.operations):,} operations · quorate {run.get('version', '?')} · {run.get('at', '')}"
    )
    problems = "".join(f"<p>{escape(problem)}</p>" for problem in result.problems)
    return f'<div class="banner{"" if result.good else " bad"}"><h1>{said}</h1><p>{escape(facts)}</p>{problems}</div>'


def _verdicts(verdicts: list[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        kind = " bad" if not verdict.good else "" if verdict.found.looked_at else " none"
        word = f'<span class="word{kind}">{verdict.word}</span>'
        rows.append(
            f"<tr><td><code>{verdict.name}</code></td><td>{escape(verdict.summary)}</td>"
            f'<td class="number">{verdict.found.looked_at:,}</td><td>{word}</td></tr>'
        )
    head = '<tr><th>checker</th><th>looks for</th><th class="number">judged</th><th>verdict</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"


def _anomalies(verdict: Verdict, history: History, scale: Scale) -> str:
    found = verdict.found.anomalies
    more = f'<p class="dim">and {len(found) - _SHOWN} more</p>' if len(found) > _SHOWN else ""
    items = "".join(_anomaly(one, history, scale, first=number == 0) for number, one in enumerate(found[:_SHOWN]))
    return f"<h2>{escape(verdict.name)}: {escape(verdict.summary)}</h2>{items}{more}"


def _anomaly(anomaly: Anomaly, history: History, scale: Scale, *, first: bool) -> str:
    lines = "\n".join(describe(history.operations[number], scale) for number in anomaly.operations)
    opened = " open" if first else ""
    return f"<details{opened}><summary>{escape(anomaly.text)}</summary><pre>{escape(lines)}</pre></details>"


def describe(one: Operation, scale: Scale) -> str:
    """One operation in a line."""
    ended = "never" if one.ended_ns is None else f"{scale.seconds(one.ended_ns):.3f} s"
    what = [f"#{one.number}", f"{scale.seconds(one.began_ns):.3f} s to {ended}", one.process, one.action.value]
    if one.topic:
        what.append(str(one.place) if one.partition >= 0 else one.topic)
    for name in ("value", "group", "node", "count", "error"):
        if getattr(one, name):
            what.append(f"{name} {getattr(one, name)}")
    if one.offset >= 0:
        what.append(f"offset {one.offset}")
    if one.records:
        some = ", ".join(f"{record.offset}={record.value}" for record in one.records[:_RECORDS])
        what.append(f"{len(one.records)} records: {some}{', ...' if len(one.records) > _RECORDS else ''}")
    return "  ".join([*what, one.outcome])


def _faults(history: History, scale: Scale) -> str:
    rows = [
        f'<tr><td class="number">{band.first_s:.1f}</td><td class="number">{band.last_s:.1f}</td>'
        f"<td>{escape(band.kind)}</td><td>{escape(band.text)}</td></tr>"
        for band in faults_of(history, scale)
    ]
    head = '<tr><th class="number">from, s</th><th class="number">to, s</th><th>fault</th><th>of what</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>" if rows else '<p class="dim">None.</p>'


def _operations(history: History) -> str:
    rows = []
    for action in Action:
        found = history.of(action)
        if found:
            cells = "".join(
                f'<td class="number">{sum(one.outcome == outcome for one in found):,}</td>'
                for outcome in ("ok", "fail", "info", "open")
            )
            rows.append(f"<tr><td><code>{action.value}</code></td>{cells}</tr>")
    names = ("happened", "refused", "in doubt", "never answered")
    head = "<tr><th>operation</th>" + "".join(f'<th class="number">{name}</th>' for name in names) + "</tr>"
    return f"<table>{head}{''.join(rows)}</table>"
