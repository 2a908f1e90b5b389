"""Draw the figures of docs/plotting.md again: python docs/draw_gallery.py [FOLDER]."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def draw(folder: Path) -> list[str]:
    """Run the snippets of the page in `folder`; return the names of the figures they save."""
    page = (DOCS / "plotting.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        for snippet in snippets:
            exec(compile(snippet, "plotting.md", "exec"), namespace)
    finally:
        os.chdir(before)
    return re.findall(r'savefig\("([\w.]+)"', page)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures"
    print("\n".join(draw(target)))
