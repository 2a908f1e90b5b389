"""What every mechanism shares: how it is built, and the guarantee of its releases."""

from __future__ import annotations

from typing import Any, ClassVar

from dpoco._calibrated import Certified

__all__ = ["Mechanism"]


class Mechanism(Certified):
    """Base of the mechanisms, whose accountants take everything by name."""

    _shown: ClassVar[tuple[str, ...]]  # parameters in the report

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        return 1  # nothing is allocated before the caller brings scores or queries

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self._parameters, name)!r}" for name in self._shown)
        return f"{type(self).__name__}({shown})\n  {self._guarantee!r}"
