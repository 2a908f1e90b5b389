"""HTML that notebooks show."""

from __future__ import annotations

import html


def as_html(text: str) -> str:
    """Return lines as a notebook shows them, the first as a heading."""
    # Names of columns and files may contain code that a browser would run.
    head, _, rest = html.escape(text).partition("\n")
    return f"<b>{head}</b><pre>{rest}</pre>"
