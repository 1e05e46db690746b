"""Questions to a node's HTTP port, for the commands that administer a cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

import click

from quorate.broker.json_text import read_json

DEFAULT = "http://127.0.0.1:9192"
_PATIENCE_S = 30.0

F = TypeVar("F", bound=Callable[..., Any])


def http_option(command: F) -> F:
    """`--http`: which node is asked. Any node of the cluster will do."""
    return click.option(
        "--http",
        "address",
        default=DEFAULT,
        show_default=True,
        metavar="URL",
        envvar="QUORATE_HTTP",
        show_envvar=True,
        help="HTTP address of any node of the cluster.",
    )(command)


def ask(address: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request; the answer's JSON object. Raises ClickException with what the node said, or why it said nothing."""
    if "://" not in address:
        address = f"http://{address}"
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"--http must begin with http:// or https://, not {address!r}")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address.rstrip("/") + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
            said = read_json(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise click.ClickException(_reason(error)) from error
    except (OSError, ValueError) as error:
        raise click.ClickException(f"no node answers at {address}: {getattr(error, 'reason', error)}") from error
    if not isinstance(said, dict):
        raise click.ClickException(f"no node answers at {address}: {said!r:.80} is no answer of one")
    return said


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(read_json(error.read())["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.code} {error.reason}"
