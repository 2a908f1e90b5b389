"""Sweeps over a grid and seeds, in one file that survives interrupts."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from dpoco._learner import Progress
from dpoco._validation import choice, positive_int
from dpoco.scale._sweep_backends import BACKENDS, workers_here
from dpoco.scale._sweep_cells import Cell, cells_of, encoded
from dpoco.scale._sweep_file import SweepFile
from dpoco.scale._sweep_results import SweepResults, sorted_records
from dpoco.scale._sweep_runs import StreamRun

__all__ = ["sweep"]

_MOST_WORKERS = 4096


def sweep(
    run: Callable[[Cell], Any] | tuple[Callable[[Cell], Any], Any],
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    *,
    seeds: int | Iterable[int],
    output: str | os.PathLike[str] = "results.jsonl",
    backend: str = "serial",
    workers: int | None = None,
    root: int = 0,
    constants: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> SweepResults:
    """Run a function on every cell of a grid with every seed, and keep the results in a file.

    For research: the noise is seeded, so that **every guarantee is void**, and results are not
    private.

    Parameters
    ----------
    run : callable, or a pair
        ``run(cell)`` returns a mapping of results, or one value. It takes its noise from
        ``cell.source()`` and simulated data from ``cell.generator()``; see `Cell`. A pair
        ``(make, stream)`` stands for ``StreamRun(make, stream)``.
    grid : mapping or iterable of mappings
        Values (numbers, strings, booleans, None) by name, of which all combinations are run; or
        the combinations themselves.
    seeds : int or iterable of int
        Number of seeds, from 0 on, or the seeds: each in [0, 2^63).
    output : path-like, default "results.jsonl"
        JSON lines. Cells that the file already has are not run again, cells that failed are; so
        an interrupted sweep goes on when it is called again, also with a larger grid.
    backend : {"serial", "threads", "loky", "ray"}
        "threads" for functions that spend their time in compiled code, such as learners' ``run``;
        "loky" for processes (needs joblib, extra ``sweep``), "ray" for a Ray cluster, or a local
        one that is started and stopped here (extra ``ray``).
    workers : int, optional
        Default: the cores this process may use; "serial" has one.
    root : int, default 0
        Root of the seed tree, in [0, 2^63).
    constants : mapping, optional
        Anything else that the results depend on; part of the configuration.
    progress : callable, optional
        Called as ``progress(done, total)``, cells of earlier calls included.

    Returns
    -------
    SweepResults
        All cells of this grid, sorted.

    Raises
    ------
    StateError
        If the file belongs to a sweep with another function name, names, root or constants or of
        another version of the library, is no such file, or is in use.
    ValueError, TypeError
        For bad arguments.
    ImportError
        If the backend's package is not installed.
    OSError
        If the file cannot be written.

    Notes
    -----
    An exception in a cell becomes the ``error`` of its record, with its text, and does not stop
    the others. Results are the same bits for every backend, number of workers and order, if `run`
    depends on its cell only; results of numerical libraries can depend on their number of threads.
    Records are written whole and synced one by one: an interrupt leaves a valid file, and of a
    power cut at worst a torn last line, which is dropped when the sweep goes on.
    The function's code is not part of the configuration: after changing it, take another file.

    Examples
    --------
    >>> import tempfile, pathlib, dpoco
    >>> def run(cell):
    ...     noise = dpoco.noise.gaussian(cell.source(), size=cell["draws"])
    ...     return {"mean": float(noise.mean())}
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "results.jsonl"
    >>> found = dpoco.scale.sweep(run, {"draws": [10, 1000]}, seeds=3, output=file)
    >>> len(found), len(found.failed)
    (6, 0)
    """
    if isinstance(run, tuple):
        if len(run) != 2 or not callable(run[0]):
            raise TypeError("run must be a callable or a pair (make, stream)")
        run = StreamRun(*run)
    if not callable(run):
        raise TypeError(f"run must be a callable or a pair; got {type(run).__name__}")
    play = BACKENDS[choice("backend", backend, BACKENDS)]
    count = workers_here() if workers is None else positive_int("workers", workers)
    if count > _MOST_WORKERS:
        raise ValueError(f"workers must be at most {_MOST_WORKERS}; got {count}")
    if backend == "serial" and workers not in (None, 1):
        raise ValueError('backend "serial" has one worker; choose "threads", "loky" or "ray"')
    cells = cells_of(grid, seeds, root)
    configuration = _configuration(run, sorted(cells[0].values), int(root), constants or {})
    path = Path(output)
    with SweepFile(path, configuration) as file:
        records = {cell.key: file.done[cell.key] for cell in cells if cell.key in file.done}
        left = [cell for cell in cells if cell.key not in records]
        if progress is not None:
            progress(len(records), len(cells))
        if left:
            with closing(play(run, left, min(count, len(left)))) as outcomes:
                for number, outcome in outcomes:
                    records[left[number].key] = file.append(left[number], outcome)
                    if progress is not None:
                        progress(len(records), len(cells))
    return SweepResults(path, sorted_records(records.values()))


def _configuration(
    run: Callable[[Cell], Any], names: list[str], root: int, constants: Mapping[str, Any]
) -> dict[str, Any]:
    from dpoco import __version__

    return {
        "constants": encoded("constants", constants),
        "library": __version__,
        "names": names,
        "root": root,
        "run": _name(run),
    }


def _name(run: Any) -> str:
    """Return what the function is called, wherever it runs."""
    named = getattr(run, "sweep_name", None)
    if isinstance(named, str):
        return named
    if isinstance(run, StreamRun):
        return _name(run.make)
    if isinstance(run, functools.partial):
        return _name(run.func)
    home = run if hasattr(run, "__qualname__") else type(run)
    return f"{home.__module__}.{home.__qualname__}"
