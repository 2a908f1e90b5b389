"""The cells of a sweep, and what is played in one: a learner on a stream, chosen by the cell.

A cell is values, a seed, and randomness that depends on nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import choice
from dpoco.accounting import Budget
from dpoco.learners import LEARNERS, learner_named, plays
from dpoco.random import Source

_LARGEST_SEED = 2**63 - 1
_LARGEST_SWEEP = 10**7


def encoded(name: str, value: Any) -> Any:
    """Return `value` as JSON carries it: NumPy's types become Python's, no value is lost.

    Floats that are not finite, which JSON lacks, become ``{"$float": "nan"}`` and the like.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [encoded(name, item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value) or "$float" in value:
            raise TypeError(f"{name} must have strings for names")
        return {key: encoded(name, item) for key, item in value.items()}
    raise TypeError(
        f"{name} must be of numbers, strings, booleans, None, lists, mappings and arrays; "
        f"got {type(value).__name__}"
    )


def decoded(pairs: dict[str, Any]) -> Any:
    """Undo `encoded`: the ``object_hook`` of ``json.loads``."""
    return float(pairs["$float"]) if pairs.keys() == {"$float"} else pairs


def line_of(record: Mapping[str, Any]) -> str:
    """Return the one JSON text of a record."""
    return json.dumps(record, allow_nan=False, separators=(",", ":"), sort_keys=True)


def _identity(value: Any) -> Any:
    """Return what tells values apart: 1 and 1.0 are the same, True is neither."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep: what the swept function is called with.

    Attributes
    ----------
    values : dict
        The grid's values, by name; also ``cell["epsilon"]``.
    seed : int
        One of the sweep's seeds.
    root : int
        Root of the sweep's seed tree.
    """

    values: dict[str, Any]
    seed: int
    root: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def key(self) -> str:
        """What identifies the cell within a sweep: JSON of its values and its seed."""
        values = {name: _identity(value) for name, value in self.values.items()}
        return line_of({"seed": self.seed, "values": encoded("values", values)})

    def source(self) -> Source:
        """Return the source of this cell's noise, seeded: it voids guarantees.

        Equal for equal root, values and seed, and independent of every other cell's, whatever the
        order of the cells and the rest of the grid. Every call returns it from its beginning.
        """
        return Source.seeded(self._digest("noise", self.key))

    def generator(self) -> np.random.Generator:
        """Return a generator for simulated data, never for privacy.

        It depends on root and seed alone, so that all values of the grid meet the same data.
        """
        return np.random.default_rng(self._digest("data", str(self.seed)))

    def _digest(self, use: str, text: str) -> int:
        message = f"dpoco sweep {use}\n{self.root}\n{text}".encode()
        return int.from_bytes(hashlib.sha256(message).digest(), "little")


def cells_of(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
    seeds: int | Iterable[int],
    root: int,
) -> list[Cell]:
    """Return all cells: the product of the grid (or its rows) with the seeds, seeds fastest."""
    rows = _rows(grid)
    numbers = _seeds(seeds)
    _check_seed("root", root)
    if len(rows) * len(numbers) > _LARGEST_SWEEP:
        raise ValueError(f"a sweep has at most {_LARGEST_SWEEP} cells")
    cells = [Cell(row, seed, int(root)) for row in rows for seed in numbers]
    if len({cell.key for cell in cells}) != len(cells):
        raise ValueError("the grid or the seeds name the same cell twice")
    return cells


def _rows(
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        columns = {name: _column(name, values) for name, values in grid.items()}
        rows = [
            dict(zip(columns, values, strict=True))
            for values in itertools.product(*columns.values())
        ]
    else:
        rows = [dict(row) for row in grid]
    if not rows:
        raise ValueError("the grid has no cells")
    names = rows[0].keys()
    if any(row.keys() != names for row in rows):
        raise ValueError("every row of the grid must have the same names")
    if not all(isinstance(name, str) for name in names):
        raise TypeError("the names of the grid must be strings")
    return [{name: _scalar(name, value) for name, value in row.items()} for row in rows]


def _column(name: Any, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(f"grid[{name!r}] must be a sequence of values")
    return list(values)


def _scalar(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise TypeError(
            f"grid[{name!r}] must hold numbers, strings, booleans or None; "
            f"got {type(value).__name__}"
        )
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"grid[{name!r}] holds a NaN, which is no value")
    return value


def _seeds(seeds: int | Iterable[int]) -> Sequence[int]:
    single = isinstance(seeds, (bool, np.bool_, str, bytes))
    if single or not isinstance(seeds, (int, np.integer, Iterable)):
        raise TypeError("seeds must be a number of seeds or a sequence of them")
    if isinstance(seeds, (int, np.integer)):
        if not 1 <= seeds <= _LARGEST_SWEEP:
            raise ValueError(f"seeds must be in [1, {_LARGEST_SWEEP}]; got {seeds}")
        return range(int(seeds))
    numbers = list(seeds)
    if not numbers:
        raise ValueError("seeds is empty")
    for seed in numbers:
        _check_seed("a seed", seed)
    return [int(seed) for seed in numbers]


def _check_seed(name: str, seed: Any) -> None:
    if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"{name} must be an int; got {type(seed).__name__}")
    if not 0 <= seed <= _LARGEST_SEED:
        raise ValueError(f"{name} must be in [0, {_LARGEST_SEED}]; got {seed}")


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
        What ``learner.run`` takes: a `dpoco.datasets.Stream`, features and labels, or losses;
        or ``stream(cell)`` returning one of them, drawn from ``cell.generator()``.
    """

    make: Callable[[Cell], Any]
    stream: Any

    def __call__(self, cell: Cell) -> dict[str, Any]:
        """Play the cell and return its numbers.

        Raises
        ------
        ValueError
            If the learner's noise is not the cell's: it would not be reproducible.
        """
        given = self.stream(cell) if callable(self.stream) else self.stream
        features, labels, target = _parts(given)
        learner = self.make(cell)
        if not learner._is_seeded:
            raise ValueError("make(cell) must build the learner with source=cell.source()")
        rounds = len(features)
        if "horizon" in cell.values:
            rounds = min(rounds, int(cell["horizon"]))
        features = features[:rounds]
        if plays(learner) == "experts":
            if labels is not None:
                raise TypeError("learners of experts take no labels")
            trace: Any = learner.run(features)
            target = int(np.argmin(features.sum(axis=0)))
        else:
            labels = None if labels is None else labels[:rounds]
            trace = learner.run(features, labels, record_decisions=False)
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

    Cells have ``epsilon``, ``delta`` (None: 1/(10 horizon)), ``horizon`` and ``dimension``
    (coordinates, or experts). Linear regression on the Euclidean unit ball with squared loss, or
    independent losses 0 and 1 of experts of which one is better.
    """

    learner: str

    def __post_init__(self) -> None:
        choice("learner", self.learner, SWEPT)

    @staticmethod
    def learners() -> tuple[str, ...]:
        """Return the names of the learners there are."""
        return SWEPT

    @property
    def sweep_name(self) -> str:
        """What the records call this function."""
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
        loss = losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
        return known.load()(domain, loss, **settings)


def _regression(cell: Cell) -> Any:
    from dpoco.datasets import linear_regression_stream

    seed = int(cell.generator().integers(2**63))
    return linear_regression_stream(cell["horizon"], cell["dimension"], 2.0, seed)


def _expert_losses(cell: Cell) -> Any:
    generator = cell.generator()
    means = np.full(cell["dimension"], _BAD)
    means[generator.integers(cell["dimension"])] = _GOOD
    return (generator.random((cell["horizon"], cell["dimension"])) < means).astype(float)
