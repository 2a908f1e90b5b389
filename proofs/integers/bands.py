"""The series 1/c of every band: its norms over 10^4 pushes, with bounds on what doubles lose.

c holds the first p coefficients of (1 - x)^-0.57, p = 1..1000. A series h that solves c h = 1 but
for a residual r is off by (1/c) r, so that |1/c|_1 <= |h|_1 / (1 - |r|_1), and so are its l2 norms.
Quoted by docs/privacy/lattice.md.
"""

import numpy as np
from scipy.signal import lfilter

BANDS, PUSHES = 1000, 10**4
i = np.arange(1, BANDS)
c = np.cumprod([1.0, *((i - 1 + 0.57) / i)])
one = np.zeros(PUSHES)
one[0] = 1.0
longest, largest = 0.0, 0.0
for band in range(1, BANDS + 1):
    h = lfilter([1.0], c[:band], one)
    residual = lfilter(c[:band], [1.0], h) - one
    first = np.abs(h).sum()
    # Of doubles: coefficients, products and sums of the residual, every term with all of h.
    rounding = PUSHES * (4 * band + 8) * 2.0**-53 * first
    left = 1.0 - np.abs(residual).sum() - rounding
    assert left > 0.999
    longest, largest = max(longest, np.linalg.norm(h) / left), max(largest, first / left)
    assert longest <= 1.22, band
    assert largest <= 2.45, band
print(f"proved: 1/c of bands, |.|_2 <= {longest:.4f} and |.|_1 <= {largest:.4f}, p = 1..{BANDS}")
