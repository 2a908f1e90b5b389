"""``python -m tests.audit.bugs``: the catalogue of planted bugs, as a table."""

from __future__ import annotations

from .catalogue import table

print(table())
