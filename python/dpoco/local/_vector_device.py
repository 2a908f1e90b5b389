"""The device's side of channel "vector"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpoco.local._hypotheses import Hypotheses
from dpoco.local._lattice import kept
from dpoco.local._specs import RoundSpec
from dpoco.local._vector import NOISES, VectorRandomizer
from dpoco.random import Source

__all__ = ["prepared", "randomizer_of"]


def randomizer_of(spec: RoundSpec, matrix: Any) -> VectorRandomizer:
    """Return the randomizer of a "vector" round: scale and sensitivity are computed, not told.

    ``spec.parameters`` are the mixing of the losses and the index of the noise in `NOISES`.
    """
    if len(spec.parameters) != 2:
        raise ValueError("channel 'vector' takes two parameters")
    mixing, code = spec.parameters
    if code not in range(len(NOISES)) or not 0.0 < mixing <= 1.0:
        raise ValueError("channel 'vector' takes a mixing in (0, 1] and a known noise")
    name = NOISES[int(code)]
    if spec.noise != ("gaussian" if name == "gaussian" else "laplace"):
        raise ValueError("the noise of the round contradicts its parameters")
    if (name == "laplace") != (spec.delta == 0.0):
        raise ValueError("pure noise has delta = 0, other noise a positive one")
    settings = ("vector", spec.epsilon, spec.delta, mixing, name, spec.index)
    return kept(
        matrix,
        settings,
        lambda: VectorRandomizer(
            matrix, spec.epsilon, mixing, delta=spec.delta, noise=name, index=spec.index
        ),
    )


def prepared(
    spec: RoundSpec, hypotheses: Hypotheses, x: Any, y: Any
) -> Callable[[Source], tuple[int, ...]]:
    """Return what draws the report on label `y`; fails, if at all, for public reasons."""
    randomizer = randomizer_of(spec, hypotheses.matrix(x))
    answer: Any = partial(randomizer.respond, y)
    return answer  # type: ignore[no-any-return]
