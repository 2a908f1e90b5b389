"""Regret of one tracker for both worlds, put together from two and a selection between them.

`ObliviousTracker` follows whatever losses there are, and pays for it where losses are drawn from a
distribution that shifts now and then. `WindowSelector` is good there, and fails against losses
that follow its windows. The third player plays both of them, each with half of epsilon, and
`PrefixHedge` on their two losses decides which of the two decisions counts. Their guarantees are
composed exactly, and the script stops if they exceed the budget. Means of eight worlds, a round,
above the best sequence with as many switches as the world.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from numpy.typing import NDArray
from worlds import AdversarialBlocks, ObliviousSwitching

import dpoco
from dpoco.environments import Oblivious, SwitchingStochastic
from dpoco.evaluation import best_switching_sequence
from dpoco.experts import ObliviousTracker, PrefixHedge, WindowSelector

SWITCHES, DELTA = 5, 1e-6
# Shares of epsilon: the tracker, the windows, the selection between them.
SHARES = (0.5, 0.5, 0.1)
COLUMNS = ("tracker", "windows", "both")

Losses = NDArray[np.float64]


class Players:
    """Builds players for tables of so many rounds, each with another seed."""

    def __init__(self, rounds: int, seed: int) -> None:
        self.rounds = rounds
        self._seeds = itertools.count(1000 * seed)

    def _options(self, epsilon: float, delta: float) -> dict[str, object]:
        source = dpoco.random.Source.seeded(next(self._seeds))
        budget = dpoco.Budget(epsilon, delta)
        return {"horizon": self.rounds, "budget": budget, "source": source}

    def tracker(self, experts: int, epsilon: float, delta: float = DELTA) -> ObliviousTracker:
        return ObliviousTracker(experts, switches=SWITCHES, **self._options(epsilon, delta))

    def windows(self, experts: int, epsilon: float) -> WindowSelector:
        return WindowSelector(experts, expected_shifts=SWITCHES, **self._options(epsilon, 0.0))

    def both(self, losses: Losses, epsilon: float) -> Losses:
        """Return the losses of a run of the two with a selection between them, shape (rounds,)."""
        slow, fast, choice = (share * epsilon for share in SHARES)
        parts = (
            self.tracker(losses.shape[1], slow, DELTA / 2),
            self.windows(losses.shape[1], fast),
        )
        selection = PrefixHedge(2, **self._options(choice, DELTA / 2))
        guarantees = [learner.guarantee for learner in (*parts, selection)]
        whole = dpoco.Guarantee.composed(*guarantees, delta=DELTA)
        if whole.epsilon > epsilon:
            raise SystemExit(f"epsilon = {whole.epsilon:g} together, more than {epsilon:g}")
        return selection.run(np.stack([part.run(losses).losses for part in parts], axis=1)).losses


def worlds(rounds: int, seed: int) -> dict[str, Oblivious]:
    """Return a world of every kind."""
    options = {"switches": SWITCHES, "gap": 0.4, "seed": seed}
    window = Players(rounds, seed).windows(2, 1.0).plan.tuning.window
    return {
        "shifts": SwitchingStochastic(10, rounds, **options),
        "waves": ObliviousSwitching(10, rounds, **options),
        "blocks as long as a window": AdversarialBlocks(2, rounds, block=window),
    }


def regrets(losses: Losses, epsilon: float, seed: int) -> list[float]:
    """Return the regret of every player a round."""
    rounds, experts = losses.shape
    players = Players(rounds, seed)
    runs = (
        players.tracker(experts, epsilon).run(losses).losses,
        players.windows(experts, epsilon).run(losses).losses,
        players.both(losses, epsilon),
    )
    best = best_switching_sequence(losses, switches=SWITCHES).total_loss
    return [(float(run.sum()) - best) / rounds for run in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--rounds", type=int, nargs="*", default=[20_000, 100_000])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.3, 1.0])
    options = parser.parse_args()
    print(f"| world, T, epsilon | {' | '.join(COLUMNS)} |")
    print("|---|--:|--:|--:|")
    for rounds, epsilon in itertools.product(options.rounds, options.epsilon):
        found: dict[str, list[list[float]]] = {}
        for seed in range(options.worlds):
            for name, world in worlds(rounds, seed).items():
                found.setdefault(name, []).append(regrets(world.matrix(), epsilon, seed))
        for name, rows in found.items():
            cells = " | ".join(f"{value:.4f}" for value in np.mean(rows, axis=0))
            print(f"| {name}, {rounds:,}, {epsilon:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
