"""Sweeps over a grid and seeds, and what is played in a cell: a learner on a stream.

Cells are worked on here, in threads, in processes or on a Ray cluster. Every backend is a generator
of (number of the cell, outcome), in the order in which they are done. An interrupt stops the
generator; what it has yielded is already in the file.
"""

from __future__ import annotations

import functools
import itertools
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpoco._learner import Progress
from dpoco._validation import choice, imported, positive_int
from dpoco.accounting import Budget
from dpoco.evaluation import play
from dpoco.learners import LEARNERS, learner_named, plays
from dpoco.scale._sweep_records import Cell, SweepFile, SweepResults, cells_of, encoded

Run = Callable[[Cell], Any]
Outcome = dict[str, Any]
Outcomes = Generator[tuple[int, Outcome], None, None]

_LONGEST_MESSAGE = 1000
_AHEAD = 2  # cells handed out per worker, so that none waits


def perform(run: Run, cell: Cell) -> Outcome:
    """Return the result of one cell, or the error it raised."""
    try:
        value = run(cell)
        named = value if isinstance(value, Mapping) else {"value": value}
        return {"result": encoded("the result", named)}
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> Outcome:
    kind = type(error)
    message = str(error)[:_LONGEST_MESSAGE]
    return {"error": {"type": f"{kind.__module__}.{kind.__qualname__}", "message": message}}


def _numbered(run: Run, number: int, cell: Cell) -> tuple[int, Outcome]:
    return number, perform(run, cell)


def _serial(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    for number, cell in enumerate(cells):
        yield number, perform(run, cell)


def _threads(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="dpoco-sweep")
    waiting: set[Future[tuple[int, Outcome]]] = set()
    rest = iter(enumerate(cells))
    try:
        while True:
            for number, cell in itertools.islice(rest, _AHEAD * workers - len(waiting)):
                waiting.add(pool.submit(_numbered, run, number, cell))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _loky(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    joblib = imported("joblib", 'the backend "loky"', "sweep")
    parallel = joblib.Parallel(
        n_jobs=workers,
        backend="loky",
        return_as="generator_unordered",
        pre_dispatch=f"{_AHEAD}*n_jobs",
    )
    tasks = (joblib.delayed(_numbered)(run, number, cell) for number, cell in enumerate(cells))
    outcomes = parallel(tasks)
    try:
        for outcome in outcomes:  # noqa: UP028 - `yield from` would close it, with a warning
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of results that an interrupt leaves unused
            outcomes.close()


def _ray(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    ray = imported("ray", 'the backend "ray"', "ray")
    started = not ray.is_initialized()
    if started:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(max_retries=0)(_numbered)
        shared = ray.put(run)
        waiting: dict[Any, int] = {}
        rest = iter(enumerate(cells))
        try:
            while True:
                for number, cell in itertools.islice(rest, _AHEAD * workers - len(waiting)):
                    waiting[task.remote(shared, number, cell)] = number
                if not waiting:
                    return
                (done, *_), _ = ray.wait(list(waiting), num_returns=1)
                number = waiting.pop(done)
                try:
                    yield ray.get(done)
                except ray.exceptions.RayError as error:  # its worker died
                    yield number, _failure(error)
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)
    finally:
        if started:
            ray.shutdown()


BACKENDS: dict[str, Callable[[Run, Sequence[Cell], int], Outcomes]] = {
    "serial": _serial,
    "threads": _threads,
    "loky": _loky,
    "ray": _ray,
}


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

    For research: the noise is seeded, so **every guarantee is void**, and results are not private.

    Parameters
    ----------
    run : callable, or a pair
        ``run(cell)`` returns a mapping of results, or one value. It takes its noise from
        ``cell.source()`` and simulated data from ``cell.generator()``; see `Cell`. A pair
        ``(make, stream)`` stands for ``StreamRun(make, stream)``.
    grid : mapping or iterable of mappings
        Values (numbers, strings, booleans, None) by name, of which all combinations are run; or the
        combinations themselves.
    seeds : int or iterable of int
        Number of seeds, from 0 on, or the seeds themselves: each in [0, 2^63).
    output : path-like, default "results.jsonl"
        File of JSON lines. Cells that are already in the file are not run again, except those that
        failed. An interrupted sweep therefore continues when you call it again, even with a larger
        grid.
    backend : {"serial", "threads", "loky", "ray"}
        "threads": for functions that spend their time in compiled code, such as learners' ``run``.
        "loky": processes (needs joblib, extra ``sweep``). "ray": a Ray cluster, or a local one that
        the function starts and stops (extra ``ray``).
    workers : int, optional
        Number of workers; default: the cores that this process may use; "serial" has one.
    root : int, default 0
        Root of the seed tree, in [0, 2^63).
    constants : mapping, optional
        Anything else that the results depend on; it is part of the configuration.
    progress : callable, optional
        Called as ``progress(done, total)``, including cells of earlier calls.

    Returns
    -------
    SweepResults
        All cells of this grid, sorted.

    Raises
    ------
    StateError
        If the file belongs to a sweep with another function name, names, root or constants or of
        another version of the library, is not such a file, or is in use.
    ValueError, TypeError
        For bad arguments.
    ImportError
        If the backend's package is not installed.
    OSError
        If the file cannot be written.

    Notes
    -----
    An exception in a cell becomes the ``error`` of its record, with its text, and does not stop the
    others. Results have the same bits for every backend, number of workers and order, if `run`
    depends only on its cell; results of numerical libraries can depend on their number of threads.
    Each record is written as a whole and synced. An interrupt therefore leaves a valid file. A
    power cut leaves at worst a torn last line, which the next call drops. The function's code is
    not part of the configuration: if you change it, use another file.

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
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    given = (here or 1) if workers is None else workers
    count = positive_int("workers", given, maximum=_MOST_WORKERS)
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
    return SweepResults.of(path, records.values())


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


# Of experts, and of linear regression on the Euclidean ball.
SWEPT = tuple(e.name for e in LEARNERS if e.plays == "experts" or e.ball == 2.0)
_GOOD, _BAD = 0.35, 0.65  # mean losses of the best expert and of the others


@dataclass(frozen=True)
class StreamRun:
    """Play a learner on a stream: a function for `sweep`.

    A cell with a value named ``horizon`` plays that many rounds, or the whole stream if it is
    shorter. The result: ``rounds``, ``average_loss``, ``switches``; and ``average_regret`` against
    the best expert in hindsight, or the stream's true parameter if it has one.

    Parameters
    ----------
    make : callable
        ``make(cell)`` returns an unstarted learner with ``source=cell.source()``.
    stream : Stream, array_like, tuple of array_like, or callable
        Arguments of ``learner.run``: a `dpoco.datasets.Stream`, features and labels, or losses; or
        ``stream(cell)`` that returns one of these, drawn from ``cell.generator()``.
    persons : array_like, or callable, optional
        The persons behind the rounds, if the learner enforces a participation: int, str or bytes,
        shape (T,); or ``persons(cell)`` that returns them.
    """

    make: Callable[[Cell], Any]
    stream: Any
    persons: Any = None

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Play the cell and return its numbers.

        Raises
        ------
        ValueError
            If the learner's noise does not come from the cell, since it would not be reproducible.
        """
        given = self.stream(cell) if callable(self.stream) else self.stream
        features, labels, target = _parts(given)
        learner = self.make(cell)
        if not getattr(learner, "_is_seeded", True):  # of others nobody knows
            raise ValueError("make(cell) must build the learner with source=cell.source()")
        rounds = len(features)
        if "horizon" in cell.values:
            rounds = min(rounds, int(cell["horizon"]))
        features = features[:rounds]
        people = self.persons(cell) if callable(self.persons) else self.persons
        people = None if people is None else people[:rounds]
        data = (features,) if labels is None else (features, labels[:rounds])
        trace = play(learner, *data, record_decisions=False, persons=people)
        if plays(learner) == "experts":
            target = int(np.argmin(features.sum(axis=0)))
        result = {
            "rounds": rounds,
            "average_loss": trace.average_loss,
            "switches": len(trace.switches),
        }
        if target is not None:
            excess = trace.losses - trace.comparator_losses(target)
            result["average_regret"] = float(excess.mean())
        return result


def _parts(stream: Any) -> tuple[Any, Any, Any]:
    """Return features (or losses), labels or None, and the true parameter or None."""
    if hasattr(stream, "features") and hasattr(stream, "labels"):
        return stream.features, stream.labels, getattr(stream, "target", None)
    if isinstance(stream, tuple) and len(stream) == 2:
        return np.asarray(stream[0], dtype=float), np.asarray(stream[1], dtype=float), None
    return np.asarray(stream, dtype=float), None, None


@dataclass(frozen=True)
class BuiltInRun:
    """A named learner in a simulated world: what ``dpoco sweep NAME`` plays.

    Cells have ``epsilon``, ``delta`` (None: 1/(10 horizon)), ``horizon`` and ``dimension`` (number
    of coordinates or experts). The problem is linear regression on the Euclidean unit ball with
    squared loss (noisy-newton: Huber's), or independent losses of 0 or 1 for experts, one of which
    is better.
    """

    learner: str

    def __post_init__(self) -> None:
        choice("learner", self.learner, SWEPT)

    @staticmethod
    def learners() -> tuple[str, ...]:
        """Return the names of the available learners."""
        return SWEPT

    @property
    def sweep_name(self) -> str:
        """The name of this function in the records."""
        return f"dpoco sweep {self.learner}"

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Play the cell."""
        experts = learner_named(self.learner).plays == "experts"
        stream = _expert_losses if experts else _regression
        return StreamRun(self._make, stream)(cell)

    def _make(self, cell: Cell) -> Any:
        from dpoco import domains, losses

        known = learner_named(self.learner)
        horizon, dimension = cell["horizon"], cell["dimension"]
        settings: dict[str, Any] = {
            "horizon": horizon,
            "budget": Budget._over(cell["epsilon"], cell["delta"], horizon),
            "source": cell.source(),
        }
        if known.plays == "experts":
            return known.load()(dimension, **settings)
        domain = domains.LpBall(dimension=dimension, p=2.0, radius=1.0)
        kind = losses.HuberLoss if known.name == "noisy-newton" else losses.SquaredLoss
        return known.load()(domain, kind(feature_bound=1.0, label_bound=1.0), **settings)


def _regression(cell: Cell) -> Any:
    from dpoco.datasets import linear_regression_stream

    seed = int(cell.generator().integers(2**63))
    return linear_regression_stream(cell["horizon"], cell["dimension"], 2.0, seed)


def _expert_losses(cell: Cell) -> Any:
    generator = cell.generator()
    means = np.full(cell["dimension"], _BAD)
    means[generator.integers(cell["dimension"])] = _GOOD
    return (generator.random((cell["horizon"], cell["dimension"])) < means).astype(float)
