"""The device's side of the published channels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpoco.local._hypotheses import Hypotheses
from dpoco.local._paper_channel import SENSITIVITIES, channel_of
from dpoco.local._specs import RoundSpec
from dpoco.random import Source

__all__ = ["prepared"]

_LARGEST_HORIZON = 2**53


def prepared(
    spec: RoundSpec, hypotheses: Hypotheses, x: Any, y: Any
) -> Callable[[Source], tuple[int, ...]]:
    """Return what draws the report on label `y`; fails, if at all, for public reasons.

    ``spec.parameters`` are the horizon, the nominal epsilon that noise is scaled to, and the index
    of the sensitivity. The device computes what epsilon that really is, and refuses a
    specification that charges it less.
    """
    vector = spec.channel == "paper_wma"
    if len(spec.parameters) != 3 or spec.noise != "laplace":
        raise ValueError("the paper's channels take three parameters and Laplace noise")
    horizon, nominal, code = spec.parameters
    if not (2.0 <= horizon <= _LARGEST_HORIZON and horizon == int(horizon)):
        raise ValueError("the horizon must be an integer of at least 2")
    if code not in range(len(SENSITIVITIES)) or not 0.0 < nominal <= spec.epsilon:
        raise ValueError("the paper's channels take a nominal epsilon and a known sensitivity")
    if vector != (spec.delta > 0.0) or vector != (spec.index is None):
        raise ValueError("the delta or index of the round contradicts its channel")
    matrix = hypotheses.matrix(x)
    if spec.hypotheses == 1:  # nothing to learn: nothing is told
        return lambda source: (0,)
    channel = channel_of(
        matrix, int(horizon), nominal, spec.delta, SENSITIVITIES[int(code)], vector
    )
    if not channel.costs_at_most(spec.epsilon):
        raise ValueError("the round charges less than its noise costs")
    return partial(channel.respond, spec.index, y)
