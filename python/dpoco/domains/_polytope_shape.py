"""Geometry of {x : rows x <= bounds}, computed once: centre, extent, vertices.

Rows have length 1 everywhere. Every extent is an upper bound. The bounds follow from weak duality
for a box, for a radius also from the ellipsoid of the analytic centre (Nesterov and Nemirovski,
"Interior-point polynomial algorithms in convex programming", 1994), and for both from the vertices
if they are few.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco._clipping import lp_norm
from dpoco._validation import FloatArray

# The number of vertices grows quickly with the dimension; beyond these limits the box bounds the
# sizes.
LARGEST_CORNERS_DIMENSION = 12
_MOST_CORNERS = 20_000
_MOST_PAIRED = 5_000
# Share of a slack that rounding may change; the barrier needs a centre with error at most 1e-6.
_NOISE = 1e-7
# Exceeds the rounding error of a norm.
OUTWARD = 1.0 + 1e-12
_CORNERS_OUTWARD = 1.0 + 1e-9


def distinct_rows(matrix: FloatArray, bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows of length 1 with their bounds; among equal rows, the one with the least bound."""
    lengths = np.array([lp_norm(row, 2.0) for row in matrix])
    # Adding 0.0 turns -0.0 into 0.0, since equal rows must have equal bytes.
    rows = matrix / lengths[:, None] + 0.0
    scaled = bounds / lengths + 0.0
    first: dict[bytes, int] = {}
    kept: list[int] = []
    for j, row in enumerate(rows):
        place = first.setdefault(row.tobytes(), len(kept))
        if place == len(kept):
            kept.append(j)
        elif scaled[j] < scaled[kept[place]]:
            kept[place] = j
    return np.ascontiguousarray(rows[kept]), np.ascontiguousarray(scaled[kept])


def interior_point(rows: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return the centre of a large inscribed ball, or raise for an empty set or interior."""
    size = float(np.abs(bounds).max())
    if size == 0.0:
        raise ValueError("the polytope is a cone: unbounded, or a single point")
    limits = bounds / size
    point, radius, scale = np.zeros(rows.shape[1]), 0.0, 1.0
    for _ in range(4):
        point, radius = _inscribed_ball(rows, limits, point, scale)
        if abs(radius) >= 1e-3 * scale:
            break
        # The radius is near the solver's tolerances, so the problem is solved again at a larger
        # scale.
        scale *= max(abs(radius) / scale, 1e-5)
    room = limits - rows @ point
    # A slack below the rounding error counts as zero.
    noise = 8.0 * np.finfo(float).eps * (np.abs(limits) + np.abs(rows) @ np.abs(point))
    if (room < -noise).any():
        raise ValueError("the polytope is empty: no point satisfies every bound")
    if not (room > noise).all():
        raise ValueError("the polytope has an empty interior")
    return point * size


def _inscribed_ball(
    rows: FloatArray, bounds: FloatArray, origin: FloatArray, scale: float
) -> tuple[FloatArray, float]:
    """Return centre and radius of a largest inscribed ball of radius at most `scale`."""
    from scipy.optimize import linprog

    d = rows.shape[1]
    # Moving a wall nearer keeps the ball inscribed. Larger distances would exceed the solver's
    # tolerances.
    room = np.minimum((bounds - rows @ origin) / scale, 1e6)
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.hstack([rows, np.ones((rows.shape[0], 1))]),
        b_ub=room,
        bounds=[(None, None)] * d + [(None, 1.0)],
        method="highs",
    )
    # The problem is feasible and bounded, so the solver gave up.
    if found.x is None:
        raise ValueError("the polytope is too badly scaled: no inscribed ball was found")
    point = origin + scale * found.x[:d]
    return point, float((bounds - rows @ point).min())


def analytic_center(rows: FloatArray, bounds: FloatArray, start: FloatArray) -> FloatArray:
    """Return the maximiser of the product of slacks, by Newton's method with an exact line search.

    The step is a least-squares solution in rows over slacks, whose condition number is the square
    root of the Hessian's. O(m d^2) a step, about 20 steps.
    """
    # A bounded set needs more walls than dimensions, in all directions.
    spans = np.linalg.svd(rows, compute_uv=False)
    if rows.shape[0] <= rows.shape[1] or spans[-1] <= 1e-13 * spans[0]:
        raise ValueError("the polytope is unbounded: its rows do not span every direction")
    x, best, least = start, start, math.inf
    for _ in range(200):
        slack = bounds - rows @ x
        if not (slack > 0.0).all():
            break
        error = stationarity(rows, slack)
        if error < least:
            best = x
        # Near the centre the error falls quadratically until rounding stops it.
        if error <= 1e-15 or (error <= 1e-10 and error >= 0.5 * least):
            break
        least = min(error, least)
        scaled = rows / slack[:, None]
        q, r = np.linalg.qr(scaled)
        # The step would consist of rounding errors.
        if not np.abs(np.diag(r)).min() > 1e-15 * np.abs(r).max():
            break
        whitened = -q.sum(axis=0)
        step = np.linalg.solve(r, whitened)
        length = 1.0
        # Far from the centre a full step may leave the set; near it a full step converges fastest.
        if float(whitened @ whitened) > 0.05:
            length = _line_minimum(scaled @ step)
        x = x + length * step
        if not np.isfinite(x).all():
            break
    slack = bounds - rows @ best
    noise = np.finfo(float).eps * (np.abs(bounds) + np.abs(rows) @ np.abs(best)) / slack
    if _recedes(rows, stationarity(rows, slack)):
        raise ValueError("the polytope is unbounded: some direction meets no bound")
    if not noise.max() <= _NOISE or not stationarity(rows, slack) <= _NOISE:
        raise ValueError("the polytope is too flat: rounding would blur its interior")
    return best


def stationarity(rows: FloatArray, slack: FloatArray) -> float:
    """Return the norm of the sum of the walls' pulls, relative to the sum of their norms."""
    # Pulls are relative to the nearest wall's, since 1 / slack could overflow.
    pull = slack.min() / slack
    return lp_norm(pull @ rows, 2.0) / float(pull.sum())


def _line_minimum(rates: FloatArray) -> float:
    """Return the t at which -sum log(1 - t rate) is least, by bisection on its slope."""
    top = float(rates.max())
    if not top > 0.0:
        raise ValueError("the polytope is unbounded: some direction meets no bound")
    low, high = 0.0, 1.0 / top
    # After 60 halvings the interval is below the precision of a double.
    for _ in range(60):
        middle = 0.5 * (low + high)
        room = 1.0 - middle * rates
        if room.min() > 0.0 and (rates / room).sum() < 0.0:
            low = middle
        else:
            high = middle
    return low


def _recedes(rows: FloatArray, error: float) -> bool:
    """Whether there is no centre because rows u <= 0 for some u other than 0.

    By Stiemke's lemma there is no such u if the rows span the space and a positive combination of
    them vanishes. A centre gives such a combination; otherwise a linear program looks for one.
    """
    if error <= _NOISE:
        return False
    from scipy.optimize import linprog

    d = rows.shape[1]
    found = linprog(
        np.ones(rows.shape[0]), A_eq=rows.T, b_eq=np.zeros(d), bounds=(1.0, None), method="highs"
    )
    return int(found.status) == 2


def dikin_radius(rows: FloatArray, slack: FloatArray) -> float:
    """Return a bound of the distances from the analytic centre, crude by up to a factor m.

    At the centre, sum_j a_j u / s_j = 0 for the rows a_j and slacks s_j; with z_j = 1 - a_j u / s_j
    >= 0 and sum z_j = m, ||(a_j u / s_j)_j||^2 <= m (m - 1). The factor 1.1 covers a centre that is
    not exact, by as much as is checked.
    """
    m = rows.shape[0]
    spans = np.linalg.svd(rows / slack[:, None], compute_uv=False)
    # Rounded down, since the bound divides by it.
    least = float(spans[-1]) * (1.0 - 1e-6)
    unbalanced = (stationarity(rows, slack) + 1e-15 * m) * float((1.0 / slack).sum())
    if not least > 0.0 or not unbalanced <= 0.01 * least:
        raise ValueError("the polytope is too flat: rounding would blur its interior")
    return float(1.1 * (m + 1.0) / least)


def corners(rows: FloatArray, slack: FloatArray, box: FloatArray) -> FloatArray | None:
    """Return the vertices relative to the centre, shape (k, d); None if they are many or doubtful.

    Parameters
    ----------
    rows, slack
        The set ``rows u <= slack``, u relative to its centre.
    box
        Distances (below, above) to the walls of the bounding box, shape (2, d), which the vertices
        must reach.
    """
    m, d = rows.shape
    if d == 1:
        return np.array([[-box[0, 0]], [box[1, 0]]])
    if d > LARGEST_CORNERS_DIMENSION or _most_corners(m, d) > _MOST_CORNERS:
        return None
    from scipy.spatial import HalfspaceIntersection, QhullError

    # Coordinates in which the set is nearly round, with rows divided by their slacks.
    scaled = rows / slack[:, None]
    r = np.linalg.qr(scaled)[1]
    walls = np.linalg.solve(r.T, scaled.T).T * math.sqrt(m)
    try:
        found = HalfspaceIntersection(np.hstack([walls, -np.ones((m, 1))]), np.zeros(d))
    except QhullError:
        return None
    points: FloatArray = np.linalg.solve(r, found.intersections.T * math.sqrt(m)).T
    # Qhull merges nearly equal vertices, so they are checked against all walls and the box.
    if not np.isfinite(points).all() or (points @ scaled.T).max() > 1.0 + 1e-9:
        return None
    reached = np.vstack([-points.min(axis=0), points.max(axis=0)])
    return points if (np.abs(reached - box) <= 1e-9 * box).all() else None


def _most_corners(m: int, d: int) -> int:
    """Return the most vertices that m half-spaces in R^d can have (McMullen, 1970)."""
    return math.comb(m - (d + 1) // 2, m - d) + math.comb(m - (d + 2) // 2, m - d)


def extents(
    center: FloatArray, box: FloatArray, points: FloatArray | None, order: float, crude: float
) -> tuple[float, float, float]:
    """Return upper bounds of (distance from the centre, diameter, largest norm) in l_order.

    Parameters
    ----------
    center
        Shape (d,).
    box
        Distances (below, above) from the centre to the walls of the bounding box, shape (2, d).
    points
        Vertices relative to the centre, or None.
    order
        Exponent in [1, inf].
    crude
        Another bound of the distance from the centre, in l_order.
    """
    # Every size is the smaller of two upper bounds, from the box and, if known, from the vertices.
    radius = min(lp_norm(box.max(axis=0), order) * OUTWARD, crude)
    diameter = lp_norm(box.sum(axis=0), order) * OUTWARD
    far = np.maximum(np.abs(center - box[0]), np.abs(center + box[1]))
    largest = lp_norm(far, order) * OUTWARD
    if points is not None:
        radius = min(radius, largest_distance(points, order) * _CORNERS_OUTWARD)
        # Vertices are accurate up to this share of their distance from the centre.
        slip = (_CORNERS_OUTWARD - 1.0) * radius
        largest = min(largest, largest_distance(points + center, order) * OUTWARD + slip)
        if points.shape[0] <= _MOST_PAIRED:
            gaps = max(largest_distance(points[i:] - points[i], order) for i in range(len(points)))
            diameter = min(diameter, gaps * _CORNERS_OUTWARD + slip)
    largest = min(largest, (lp_norm(center, order) + radius) * OUTWARD)
    return radius, min(diameter, 2.0 * radius), largest


def largest_distance(points: FloatArray, order: float) -> float:
    """Return the largest l_order norm of the rows."""
    top = float(np.abs(points).max())
    if top == 0.0:
        return 0.0
    # The division comes first, since powers of large or small entries would over- or underflow.
    return top * float(np.linalg.norm(points / top, order, axis=1).max())
