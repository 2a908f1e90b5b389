"""Where the cells of a sweep are worked on: here, in threads, in processes, on a Ray cluster.

Every backend is a generator of (number of the cell, outcome), in the order in which they are done.
An interrupt stops the generator; what it has yielded is already in the file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from dpoco.scale._sweep_cells import Cell, encoded

__all__ = ["BACKENDS", "perform", "workers_here"]

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


def workers_here() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _serial(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    for number, cell in enumerate(cells):
        yield number, perform(run, cell)


def _threads(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    pool = ThreadPoolExecutor(workers, thread_name_prefix="dpoco-sweep")
    waiting: set[Future[tuple[int, Outcome]]] = set()
    try:
        for number, cell in enumerate(cells):
            waiting.add(pool.submit(_numbered, run, number, cell))
            if len(waiting) >= _AHEAD * workers:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _loky(run: Run, cells: Sequence[Cell], workers: int) -> Outcomes:
    try:
        import joblib
    except ImportError as error:
        raise ImportError('the backend "loky" needs joblib: pip install "dpoco[sweep]"') from error
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
    try:
        import ray
    except ImportError as error:
        raise ImportError('the backend "ray" needs Ray: pip install "dpoco[ray]"') from error
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
                for number, cell in rest:
                    waiting[task.remote(shared, number, cell)] = number
                    if len(waiting) >= _AHEAD * workers:
                        break
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
