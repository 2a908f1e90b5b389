"""The files of ``dpoco run``: a saved learner before it, a report after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import dpoco

if TYPE_CHECKING:
    from dpoco.evaluation import FitReport, RunReport

__all__ = ["check_writable", "started_learner", "write_report"]


def started_learner(checkpoint: Path | None, resume: bool) -> Any:
    """Return the saved learner to continue, or None; refuse to overwrite a state by accident."""
    if checkpoint is None:
        if resume:
            raise ValueError("--resume needs --checkpoint FILE")
        return None
    if not resume:
        if checkpoint.exists():
            raise ValueError(f"{checkpoint} exists: add --resume to continue it, or remove it")
        if not checkpoint.parent.is_dir():
            raise ValueError(f"no such directory: {checkpoint.parent}")
        return None
    return dpoco.load(checkpoint)


def check_writable(directory: Path, output: Path | None) -> None:
    """Find out before a long run, not after it, that the report has no place to go."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out must be a directory; {nearest} is not")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out: no permission to write in {nearest}")
    if output is not None and not output.absolute().parent.is_dir():
        raise ValueError(f"--output: no such directory: {output.parent}")


def write_report(
    report: RunReport | FitReport, out: Path, output: Path | None, figure: bool
) -> list[str]:
    """Write report.json, report.png if asked for, and `output`; return the files' names."""
    out.mkdir(parents=True, exist_ok=True)
    text = out / "report.json"
    text.write_text(report.to_json() + "\n", encoding="utf-8")
    files = [str(text)]
    if figure:
        image = out / "report.png"
        try:
            if isinstance(report, dpoco.evaluation.FitReport):
                dpoco.plotting.plot_fit_report(report).figure.get_figure(root=True).savefig(image)
            else:
                dpoco.plotting.plot_run_report(report).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(str(image))
    if output is not None:
        output.write_text(report.to_json() + "\n", encoding="utf-8")
        files.append(str(output))
    return files
