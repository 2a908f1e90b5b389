"""Rows about discrete noise: exact integers per second."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, rate

import dpoco

GROUP = "Exact discrete noise (per second of CPU time)"


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    source = dpoco.random.Source()
    out = np.empty(2_000_000 // shrink, dtype=np.int64)
    laws = (("Laplace", dpoco.noise.discrete_laplace, 2e7),
            ("Gaussian", dpoco.noise.discrete_gaussian, 1e7))  # fmt: skip
    for name, draw, target in laws:
        for scale, shown in ((1.0, "1"), (1e4, "1e4"), (2.0**50, "2^50")):
            action = partial(draw, source, out=out, scale=scale)
            yield rate(GROUP, f"discrete {name}, scale {shown}", action, units=out.size,
                       repetitions=pairs, target=target, unit="draws/s")  # fmt: skip
