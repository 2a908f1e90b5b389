"""What the experiments share: checks of arguments, results as JSON, tables in Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "Progress", "Result", "markdown_table", "whole"]

FloatArray = NDArray[np.float64]
Progress = Callable[[str, int, int], None]


class Result:
    """Base of what a rerun found: a value that JSON carries."""

    schema: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return the result as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def _checked(cls, record: Any) -> Mapping[str, Any]:
        """Return what `to_dict` wrote; `ValueError` if it is none."""
        if not isinstance(record, Mapping) or record.get("schema") != cls.schema:
            raise ValueError(f"not a result of schema {cls.schema}")
        return record


def whole(name: str, value: Any, least: int = 0) -> int:
    """Return an int in [least, 10^6]; `TypeError` or `ValueError` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if not least <= value <= 10**6:
        raise ValueError(f"{name} must be in [{least}, 1000000]; got {value}")
    return value


def markdown_table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rule = "|---|" + "---|" * (len(titles) - 1)
    return "\n".join([f"| {' | '.join(titles)} |", rule, *(f"| {' | '.join(x)} |" for x in lines)])
