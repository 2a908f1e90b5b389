"""NOT PRIVATE: simulations of what is behind Table 5.1 and Figure 5.1.

The noise of the table. The paper prints the radius of its noise as ``R^2 ~ Gamma(d/2, scale 2
sigma)`` (Lemma 3.1 and Algorithm 4); the law its proofs need has scale ``2 sigma^2``. For the sigma
of about a thousand that Theorem 3.1 asks for, this is some thirty times too little noise. For 1 < p
< 2 the printed order of the norm, ``min{q - 1, ln d - 1}``, is a smoothness constant and no order:
below 2 it bounds nothing, below 1 it is not even a norm; and its directions come from generalized
normal draws that are moved by the order's inverse. All this is simulated as printed, with the
constants of the published experiments (smoothness 1, Lipschitz constant 4, diameter 4). For p > 2
the noise is plain Gaussian of variance sigma instead of sigma^2.

The selection of the figure. The published bandit adds Laplace noise to the sizes of a gradient's
entries, selects the largest, and then moves along that coordinate in the direction that the
*unperturbed* gradient tells: one bit of raw data a round, which no amount of noise in the selection
hides. So the noise can be multiplied by any factor and the learner still learns, which is how
`figure_5_1` shows that its curve says nothing about privacy. It also lacks what a proof of joint
privacy needs: zero updates of the arms that are not chosen, and a clock of each arm's own.

Nothing here promises anything, nothing of the library uses it, and no learner can be given this
noise: these are loops over NumPy arrays that return decisions or regrets, for comparison with
print.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.accounting.published import published_sigma
from dpoco.environments import ContextualWorld

# What the published experiments declare: beta = 1, D = 4 and L = 4. The true ones are 2, 4 and 6.5.
LEAF_BOUND = 1.0 * 4.0 + 4.0


def printed_order(q: float, dimension: int) -> float:
    """Return the printed order of the noise norm; 2, which is right, for q < 2."""
    return 2.0 if q < 2.0 else min(q - 1.0, math.log(dimension) - 1.0)


def printed_scale(horizon: int, q: float, dimension: int) -> float:
    """Return the printed sigma_+ of Theorem 3.1 at the budget (1, 1/T)."""
    kappa = 1.0 if q < 2.0 else min(q - 1.0, math.e**2 * (math.log(dimension) - 1.0))
    budget = Budget._derived(1.0, 1.0 / horizon)
    return published_sigma(budget, pushes=horizon, kappa=kappa, leaf_bound=LEAF_BOUND)


def draw_unit_noise(
    generator: np.random.Generator, shape: tuple[int, ...], q: float, dimension: int
) -> FloatArray:
    """Return draws of the printed law for sigma = 1, shape ``(*shape, d)``.

    The printed radius makes a draw for sigma the square root of sigma times one of these.
    """
    if q < 2.0:
        return generator.standard_normal((*shape, dimension))
    order = printed_order(q, dimension)
    size = (*shape, dimension)
    signs = generator.integers(0, 2, (2, *size)) * 2.0 - 1.0
    magnitude = generator.standard_gamma(1.0 / order, size) ** (1.0 / order)
    drawn = signs[0] * (signs[1] * magnitude + 1.0 / order)
    norm = np.sum(np.abs(drawn) ** order, axis=-1, keepdims=True) ** (1.0 / order)
    radius = np.sqrt(generator.gamma(0.5 * dimension, 2.0, (*shape, 1)))
    noise: FloatArray = drawn * (radius / norm)
    return noise


def not_private_decisions(
    features: FloatArray,
    labels: FloatArray,
    p: float,
    *,
    radius: float,
    step_scale: float,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the last decisions of the published algorithm under the printed noise. NOT PRIVATE.

    Parameters
    ----------
    features : ndarray of shape (runs, T, d)
    labels : ndarray of shape (runs, T)
    p : float
        Geometry, above 1.
    radius : float
        Of the l_p ball.
    step_scale : float
        s in the steps s / (k + s).
    generator : Generator
        NumPy's: these draws protect nobody.

    Returns
    -------
    ndarray of shape (runs, d)
    """
    runs, horizon, d = features.shape
    q = 1.0 if math.isinf(p) else p / (p - 1.0)
    noise = draw_unit_noise(generator, (horizon, runs), q, d)
    noise *= math.sqrt(printed_scale(horizon, q, d))
    sums = _tree_sums(noise)
    theta = np.zeros((runs, d))
    before = theta
    total = np.zeros((runs, d))
    for i in range(horizon):
        k = i + 1.0
        x, y = features[:, i], labels[:, i]
        now, then = np.einsum("rd,rd->r", theta, x) - y, np.einsum("rd,rd->r", before, x) - y
        total += (2.0 * ((k + 1.0) * now - k * then))[:, None] * x
        vertex = _minimiser(total + sums[i], p, q, radius)
        before, theta = theta, theta + (step_scale / (k + step_scale)) * (vertex - theta)
    return theta


def _tree_sums(draws: FloatArray) -> FloatArray:
    """Return the binary tree's noise of every prefix from one draw a round, shape (T, ...)."""
    horizon = len(draws)
    sums = np.zeros((horizon + 1, *draws.shape[1:]))
    # The prefix of t rounds is that of t without its lowest bit and the node that ends at t.
    for level in range(horizon.bit_length(), -1, -1):
        ends = np.arange(2**level, horizon + 1, 2 ** (level + 1))
        sums[ends] = draws[ends - 1] + sums[ends - 2**level]
    return sums[1:]


def _minimiser(gradient: FloatArray, p: float, q: float, radius: float) -> FloatArray:
    """Return the point of the l_p ball with the least inner product, for every row."""
    if math.isinf(p):
        return -radius * np.sign(gradient)
    size = np.abs(gradient)
    size /= size.max(axis=1, keepdims=True)
    power = size ** (q - 1.0)
    norm = np.sum(power * size, axis=1, keepdims=True) ** (1.0 / p)
    vertex: FloatArray = -radius * np.sign(gradient) * power / norm
    return vertex


def not_private_regrets(
    worlds: list[ContextualWorld],
    *,
    epsilon: float,
    factor: float,
    shared: bool,
    leak: bool,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the regret of every round under the published selection. NOT PRIVATE.

    Parameters
    ----------
    worlds : list of ContextualWorld
        Of the same size; all are played at once.
    epsilon : float
        What the published noise is meant for, with delta = 1/T.
    factor : float
        Multiplies the published noise.
    shared : bool
        One running gradient for all arms, or one for each.
    leak : bool
        Whether the direction of a step is the unperturbed gradient's. False perturbs it along
        with the size: still not the published claim, but then noise is noise.
    generator : Generator
        NumPy's: these draws protect nobody.

    Returns
    -------
    ndarray of shape (worlds, T)
    """
    first = worlds[0]
    count, arms, d, horizon = len(worlds), first.arms, first.dimension, first.horizon
    contexts = np.stack([world.contexts for world in worlds], axis=1)
    rewards = np.stack([world.rewards for world in worlds], axis=1)
    means = np.stack([world.means for world in worlds], axis=1)
    warm_up = math.floor(math.log(d * horizon) * math.log(horizon) / epsilon**2)
    # The published scale on unit steps, without the factor D (beta D + L) that it needs.
    unit = 4.0 * math.sqrt(math.log(horizon) * math.log(horizon)) / epsilon
    row = np.arange(count)
    theta = np.zeros((count, arms, d))
    before = theta.copy()
    gradient = np.zeros((count, 1 if shared else arms, d))
    regret = np.empty((horizon, count))
    for t in range(horizon):
        x = contexts[t]
        if t < arms * warm_up:
            arm, clock = np.full(count, t // warm_up), t % warm_up + 1
        else:
            arm, clock = np.argmax(np.einsum("wkd,wd->wk", theta, x), axis=1), t + 1
        regret[t] = means[t].max(axis=1) - means[t, row, arm]
        slot = np.zeros(count, dtype=np.int64) if shared else arm
        own = theta[row, arm]
        residual = np.einsum("wd,wd->w", own, x) - rewards[t, row, arm]
        earlier = np.einsum("wd,wd->w", before[row, arm], x) - rewards[t, row, arm]
        kept = 1.0 - 1.0 / (clock + 1.0)
        now = residual[:, None] * x + kept * (gradient[row, slot] - earlier[:, None] * x)
        gradient[row, slot] = now
        noise = generator.laplace(0.0, 1.0, (count, d)) * (factor * unit / math.sqrt(clock))
        size = np.abs(now) + noise if leak else np.abs(now + noise)
        chosen = np.argmax(size, axis=1)
        direction = now if leak else now + noise
        moved = own * (1.0 - 1.0 / (clock + 1.0))
        moved[row, chosen] -= np.sign(direction[row, chosen]) / (clock + 1.0)
        before[row, arm], theta[row, arm] = own, moved
    return regret.T
