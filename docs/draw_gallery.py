"""Draw the figures of docs/plotting.md and of the README again.

python docs/draw_gallery.py [FOLDER]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

DOCS = Path(__file__).resolve().parent


def draw(folder: Path) -> list[str]:
    """Run the snippets of the page in `folder`; return the names of the figures they save."""
    page = (DOCS / "plotting.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        matplotlib.rcParams["svg.hashsalt"] = "dpoco"
        for snippet in snippets:
            exec(compile(snippet, "plotting.md", "exec"), namespace)
    finally:
        os.chdir(before)
    return re.findall(r'savefig\("([\w.]+)"', page)


def first_run(folder: Path) -> str:
    """Draw what `dpoco run` without options learns; return the name of the figure."""
    from dpoco import plotting
    from dpoco.evaluation import RunReport

    with tempfile.TemporaryDirectory() as own:
        command = [sys.executable, "-m", "dpoco", "run", "--set", "seed=1"]
        subprocess.run(command, cwd=own, check=True, stdout=subprocess.DEVNULL)
        record = json.loads(Path(own, "results", "report.json").read_text(encoding="utf-8"))
    axes = plotting.plot_loss(
        RunReport.from_dict(record), ax=plotting.new_figure((7.0, 4.4)).subplots()
    )
    axes.figure.savefig(folder / "first_run.svg")
    return "first_run.svg"


if __name__ == "__main__":
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # the same figure is the same file
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures"
    print("\n".join([first_run(target), *draw(target)]))
