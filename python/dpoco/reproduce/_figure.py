"""Figure 5.1 of Han et al., rerun: regret of bandits under joint differential privacy."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_float
from dpoco.environments import ContextualWorld
from dpoco.reproduce._arguments import Progress, whole
from dpoco.reproduce._bandit_world import SPARSITY, SparseWorld
from dpoco.reproduce._players import players

__all__ = ["Figure51", "RegretCurve", "figure_5_1"]

SCHEMA = "dpoco.figure-5.1/1"
FloatArray = NDArray[np.float64]

_SHOWN = 200  # points of a curve


@dataclass(frozen=True, slots=True)
class RegretCurve:
    """One player's cumulative regret in expected rewards, over the runs.

    Attributes
    ----------
    arms : int
        K.
    player : str
        Who plays.
    private : bool
        Whether its guarantee is the stated budget, or better.
    mean : tuple of float
        Mean regret at ``Figure51.rounds``.
    totals : tuple of float
        Regret over all rounds, one entry a run.
    late : float
        Mean regret per round in the last quarter.
    """

    arms: int
    player: str
    private: bool
    mean: tuple[float, ...]
    totals: tuple[float, ...]
    late: float

    @property
    def total(self) -> float:
        """Mean regret over all rounds."""
        return float(np.mean(self.totals))

    @property
    def total_se(self) -> float:
        """Standard error of `total`."""
        return float(np.std(self.totals, ddof=1) / math.sqrt(len(self.totals)))


@dataclass(frozen=True)
class Figure51:
    """Figure 5.1 rerun. Not private itself: it compares with the best arm of every round.

    Attributes
    ----------
    settings : dict
        Arguments, echoed.
    rounds : tuple of int
        Where the curves are given.
    curves : tuple of RegretCurve
        One a number of arms and player.
    seconds : float
        CPU time of everything.
    """

    settings: dict[str, Any]
    rounds: tuple[int, ...]
    curves: tuple[RegretCurve, ...]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        return {"schema": SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """Return the result as indented JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Figure51:
        """Return the result written by `to_dict`; `ValueError` if it is none."""
        if not isinstance(record, Mapping) or record.get("schema") != SCHEMA:
            raise ValueError(f"not a result of schema {SCHEMA}")
        try:
            curves = tuple(
                RegretCurve(
                    **{**curve, "mean": tuple(curve["mean"]), "totals": tuple(curve["totals"])}
                )
                for curve in record["curves"]
            )
            settings = dict(record["settings"])
            return cls(settings, tuple(record["rounds"]), curves, float(record["seconds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("malformed result") from error

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per curve and shown round (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"arms": c.arms, "player": c.player, "round": t, "regret": value}
                for c in self.curves
                for t, value in zip(self.rounds, c.mean, strict=True)
            ]
        )

    def format_markdown(self) -> str:
        """Return total and late regrets as a Markdown table."""
        lines = [
            f"Regret over {self.settings['horizon']} rounds, d = {self.settings['dimension']}, "
            f"epsilon = {self.settings['epsilon']:g}, delta = 1/T: mean of "
            f"{self.settings['runs']} worlds ± standard error; last quarter per round",
            "",
            "| K | player | keeps the budget | regret | last quarter |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {c.arms} | {c.player} | {'yes' if c.private else 'no'} "
            f"| {c.total:.0f} ± {c.total_se:.0f} | {c.late:.4f} |"
            for c in self.curves
        ]
        return "\n".join([*lines, "", f"CPU time {self.seconds:.0f} s."])

    def __repr__(self) -> str:
        return f"<dpoco.reproduce.Figure51 of {len(self.curves)} curves: not private>"


def figure_5_1(
    *,
    horizon: int = 10_000,
    dimension: int = 50,
    arms: Sequence[int] = (2, 5),
    epsilon: float = 1.0,
    runs: int = 10,
    first_seed: int = 0,
    factors: Sequence[float] = (0.0, 1.0, 1000.0),
    progress: Progress | None = None,
) -> Figure51:
    """Rerun Figure 5.1 of Han et al.: regret of bandits at the budget (epsilon, 1/T).

    `HighDimensionalBandit` at the stated budget, at eight times its epsilon and without noise,
    `LinUCB` at the stated budget, uniformly random play, and the published selection with its
    noise multiplied by each of `factors`, which is not private.

    Parameters
    ----------
    horizon, dimension : int
        T, at least 100, and d, at least five. Keyword-only, as all that follow.
    arms : sequence of int, default (2, 5)
        Numbers of arms: that of the paper's text, and that of the published code.
    epsilon : float, default 1
        Privacy budget.
    runs : int, default 10
        Worlds, at least 2.
    first_seed : int, default 0
        Seed of the first world.
    factors : sequence of float
        On the published noise, at least 0.
    progress : callable, optional
        Called as ``progress("figure", done, total)`` after every player, in rounds.

    Returns
    -------
    Figure51

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    start = time.process_time()
    horizon = whole("horizon", horizon, 100)
    dimension = whole("dimension", dimension, SPARSITY)
    counts = [whole("arms", count, 2) for count in arms]
    if not counts:
        raise ValueError("arms must name at least one number of arms")
    epsilon = positive_float("epsilon", epsilon)
    whole("runs", runs, 2)
    whole("first_seed", first_seed)
    scales = [float(factor) for factor in factors]
    if any(not 0.0 <= scale < math.inf for scale in scales):
        raise ValueError("factors must be finite and at least 0")
    shown = np.unique(np.linspace(1, horizon, _SHOWN).round().astype(np.int64))
    curves: list[RegretCurve] = []
    done, total = 0, len(counts) * runs * horizon * (5 + 2 * len(scales) + 1)
    for count in counts:
        worlds: list[ContextualWorld] = [
            SparseWorld(count, dimension, horizon, seed=seed)
            for seed in range(first_seed, first_seed + runs)
        ]
        for name, private, play in players(worlds, epsilon, scales, first_seed):
            curves.append(_curve(count, name, private, play(), shown))
            done += runs * horizon
            if progress is not None:
                progress("figure", done, total)
    settings = {
        "horizon": horizon,
        "dimension": dimension,
        "arms": counts,
        "epsilon": epsilon,
        "runs": runs,
        "first_seed": first_seed,
        "factors": scales,
    }
    seconds = time.process_time() - start
    return Figure51(settings, tuple(int(t) for t in shown), tuple(curves), seconds)


def _curve(
    arms: int, player: str, private: bool, regret: FloatArray, shown: NDArray[np.int64]
) -> RegretCurve:
    sums = np.cumsum(regret, axis=1)
    quarter = max(1, regret.shape[1] // 4)
    return RegretCurve(
        arms=arms,
        player=player,
        private=private,
        mean=tuple(float(value) for value in sums.mean(axis=0)[shown - 1]),
        totals=tuple(float(value) for value in sums[:, -1]),
        late=float(regret[:, -quarter:].mean()),
    )
