"""Regret of `WindowSelector` in worlds whose law shifts, against figures of another program.

Each row: eight worlds, each with its own seed, and windows chosen without and with the gap. A
row passes if the mean regret to the best sequence of experts with as many switches as the world is
at most 1.10 times the figure, plus three standard errors (both, in squares). The last rows show
where it fails: blocks as long as a window.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np
from worlds import AdversarialBlocks, ObliviousSwitching

import dpoco
from dpoco.environments import SwitchingStochastic
from dpoco.evaluation import best_switching_sequence
from dpoco.experts import WindowSelector

SEEDS = range(100, 108)
# World, experts, rounds, shifts, epsilon, gap; figure and its error without and with the gap.
ROWS = (
    (SwitchingStochastic, 10, 10**5, 5, 1.0, 0.4, (965, 11), (225, 12)),
    (SwitchingStochastic, 10, 10**4, 5, 0.3, 0.4, (295, 6), (302, 14)),
    (SwitchingStochastic, 2, 10**4, 20, 1.0, 0.4, (258, 14), (258, 14)),
    (SwitchingStochastic, 100, 10**5, 20, 1.0, 0.4, (1742, 23), (834, 18)),
    (ObliviousSwitching, 10, 10**5, 5, 1.0, 0.4, (728, 49), (229, 22)),
)


def regret(world: dpoco.environments.Oblivious, seed: int, **options: object) -> float:
    """Return the regret of one run to the best sequence with the world's switches."""
    losses = world.matrix()
    learner = WindowSelector(
        losses.shape[1], horizon=len(losses), source=dpoco.random.Source.seeded(seed), **options
    )  # type: ignore[arg-type]
    best = best_switching_sequence(losses, switches=learner.plan.tuning.expected_shifts)
    return float(learner.run(losses).losses.sum()) - best.total_loss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=len(SEEDS))
    worlds = parser.parse_args().worlds
    failed = 0
    for kind, n, rounds, shifts, epsilon, gap, *figures in ROWS:
        budget = dpoco.Budget(epsilon, 0.0)
        for known, (figure, error) in zip((0.0, gap), figures, strict=True):
            options = {"budget": budget, "expected_shifts": shifts, "gap": known}
            found = np.array(
                [
                    regret(kind(n, rounds, switches=shifts, gap=gap, seed=seed), seed, **options)
                    for seed in SEEDS[:worlds]
                ]
            )
            spread = float(found.std(ddof=1)) / math.sqrt(len(found))
            allowed = 1.10 * figure + 3.0 * math.hypot(spread, error)
            passes = found.mean() <= allowed
            failed += not passes
            print(
                f"{kind.__name__:20} N={n:<4} T={rounds:<7} S={shifts:<3} epsilon={epsilon:g} "
                f"gap={known:g}: {found.mean():7.0f} +- {spread:.0f}, allowed {allowed:.0f}"
                f"{'' if passes else '  FAILS'}"
            )
    for window in (128, 256):
        world = AdversarialBlocks(2, 10**4, block=window, seed=0)
        options = {"budget": dpoco.Budget(1.0, 0.0), "window": window}
        print(
            f"blocks as long as windows of {window}: {regret(world, 0, **options):.0f} of {10**4}"
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
