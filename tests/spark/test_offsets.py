"""Offsets in options: whatever a text is that is no JSON, the option is named."""

from __future__ import annotations

import pytest

from quorate.spark.errors import BadOption
from quorate.spark.offsets import parse_partitions


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"q":' + "9" * 5_000 + "}", '{"q":[0],"q":[1]}'])
def test_what_is_no_json_names_the_option(text: str) -> None:
    with pytest.raises(BadOption, match="option assign: ") as caught:
        parse_partitions("assign", text)
    assert len(str(caught.value)) < 1_000
