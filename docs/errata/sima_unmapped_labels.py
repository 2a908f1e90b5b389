"""Sima et al., Section 4: labels that no hypothesis allows have no cell.

A label y is split into ceil(M max_j F[j, y]) cells, and a device draws one of its label's. Local
privacy is about every label. One without cells has nothing to draw, and a device that then sends
nothing says that it has this label.
"""

import math

import numpy as np

EPSILON, T, RUNS = 1.0, 1000, 10_000
F = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
K, M = F.shape
cells = np.ceil(M * F.max(axis=0)).astype(int)
start = np.concatenate([[0], np.cumsum(cells)])
rng = np.random.default_rng(1)


def sends(label):
    """Return whether a device with this label has a cell to report about."""
    own = range(start[label], start[label + 1])
    return len(own) > 0 and rng.choice(own) >= 0


silent = [np.mean([not sends(label) for _ in range(RUNS)]) for label in (2, 0)]
print(f"cells of the labels: {cells}; silent with frequency {silent[0]:g} or {silent[1]:g}")
ratio = math.inf if silent[1] == 0.0 else math.log(silent[0] / silent[1])
print(f"claimed epsilon = {EPSILON:g}; at least {ratio:.3g}")
