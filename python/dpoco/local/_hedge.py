"""Hedge on unbiased loss estimates, for arbitrary labels and private contexts."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpoco.local._bounds as bounds
from dpoco import _core
from dpoco._validation import FloatArray, IntArray
from dpoco.local._bounds import losses
from dpoco.local._messages import PublicCoins, RoundSpec, loss_query
from dpoco.local._randomizers import BitRandomizer, subset_randomizer
from dpoco.local._settings import Settings

# Number of reports whose K sums are in memory at one time.
_ROWS = 4096
# Share of the uniform distribution in adaptive sampling.
_EXPLORATION = 0.1


class Hedge:
    """Exponential weights on estimates of all centred log-losses, from one bit about one loss.

    It runs AdaHedge unless a rate is given, in O(K) per report. It is deterministic: the same
    specifications and reports give the same state, bit for bit.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # C as sampled, since estimates divide by the contrast of the bits that devices draw.
        count = settings.hypotheses
        self._inverse = BitRandomizer(settings.epsilon).inverse_contrast
        self.fixed_mixing = settings.mixing
        if settings.mixing is None and settings.horizon is not None:
            self.fixed_mixing = bounds.hedge_mixing(count, settings.horizon, self._inverse)
        self._rate = self._fixed_rate(settings.learning_rate)
        self._engine = _core.LocalHedge(count, self._rate)
        self._shares: OrderedDict[int, float] = OrderedDict()
        # Cost of the mixtures, once per report.
        self._cost = 0.0

    def _fixed_rate(self, given: float | str | None) -> float:
        """Return the learning rate, 0 for AdaHedge; `ValueError` if it needs a horizon."""
        if given is None:
            return 0.0
        if given != "worst_case":
            return float(given)
        settings = self._settings
        if settings.horizon is None or self.fixed_mixing is None:
            raise ValueError("learning_rate='worst_case' needs a horizon")
        scale = 0.5 * self._inverse * bounds.loss_diameter(settings.hypotheses, self.fixed_mixing)
        if not math.isfinite(scale):
            # Reports carry no information.
            return 1.0
        return bounds.six_digits(
            bounds.worst_case_rate(settings.hypotheses, settings.horizon, scale)
        )

    @property
    def weights(self) -> FloatArray:
        """Current weights, shape (K,)."""
        return self._engine.weights()

    def mixing(self, round: int) -> float:
        """Return the mixing that minimises the bound; it falls with t in an endless stream.

        In an endless stream it is constant for rounds 2^k ... 2^(k+1) - 1, and so are the ranges of
        the losses, which cost O(K M).

        Parameters
        ----------
        round : int
            From 1 on.
        """
        if self.fixed_mixing is not None:
            return self.fixed_mixing
        count = self._settings.hypotheses
        if count == 1 or not math.isfinite(self._inverse):
            return 0.5
        first = 1 << (round.bit_length() - 1)
        middle = 0.5 * (3.0 * first - 1.0)
        root = math.sqrt(2.0 * (count - 1) * math.log(count) / middle)
        return min(0.5, bounds.six_digits(0.5 * self._inverse * root))

    def specify(self, round: int, matrix: FloatArray | None) -> RoundSpec:
        """Return the round's specification, which asks for one loss of one hypothesis, or a subset.

        Parameters
        ----------
        round : int
            From 1 on.
        matrix : array of shape (K, M), or None
            The hypotheses in the round's context; None if the context is private.
        """
        settings = self._settings
        if settings.subset_size is not None:
            return settings.round_spec(round, "subset", subset_size=settings.subset_size)
        mixing = self.mixing(round)
        ranges = self._range(matrix, mixing)
        coins = PublicCoins(settings.public_seed, round, 0)
        if settings.interactive and settings.hypotheses > 1:
            index, share = _drawn_loss(coins, _adaptive_shares(self.weights, ranges[1]))
        else:
            index, share = coins.below(settings.hypotheses), 1.0 / settings.hypotheses
        self._shares[round] = share
        # Closed rounds take no reports, so their shares are dropped.
        while len(self._shares) > settings.open_rounds:
            self._shares.popitem(last=False)
        queries = (loss_query(index, mixing, ranges),)
        return settings.round_spec(round, "coordinate", queries=queries)

    def accepts(self, spec: RoundSpec, matrix: FloatArray | None) -> bool:
        """Return whether this rule may have asked the round that was read from a file."""
        if self._settings.subset_size is not None:
            return spec.subset_size == self._settings.subset_size
        # The share is needed to weigh the report, and is not part of the specification.
        if spec.channel != "coordinate" or spec.round not in self._shares:
            return False
        mixing = self.mixing(spec.round)
        return spec.query == loss_query(spec.query.index, mixing, self._range(matrix, mixing))

    def _range(self, matrix: FloatArray | None, mixing: float) -> tuple[FloatArray, FloatArray]:
        """Return mid-points and half ranges."""
        if matrix is None or self._settings.range == "worst_case":
            return bounds.loss_ranges(self._settings.hypotheses, mixing)
        return bounds.reuse(matrix, ("ranges", mixing), lambda: bounds.loss_ranges(matrix, mixing))

    def apply(self, spec: RoundSpec, matrix: FloatArray | None, values: IntArray) -> None:
        """Add the reports' estimates in the order of rows, one after the other.

        Parameters
        ----------
        spec : RoundSpec
            Specification of an open round.
        matrix : array of shape (K, M), or None
            As in `specify`.
        values : array of shape (n, width)
            Bits or subsets, checked.
        """
        count = self._settings.hypotheses
        if self._settings.labels == 1:
            # The query was constant, so the bit is a fair coin.
            mixing = self.mixing(spec.round)
        elif spec.channel == "subset":
            assert matrix is not None
            mixing = self.mixing(spec.round)
            self._add_subsets(spec, matrix, mixing, values)
        else:
            query = spec.query
            mixing = query.mixing
            middle, half_range = self._range(matrix, mixing)
            widest = float(half_range.max())
            # A report about a loss that all hypotheses share is only noise, so it is ignored.
            if math.isfinite(self._inverse) and widest > bounds.SMALLEST_HALF_RANGE:
                self._raise_start(widest)
                scale = self._inverse * query.half_range / self._shares[spec.round]
                self._engine.add_coordinate(query.index, middle, scale, values)
        # Reports without information also count, because the bound counts one round per report.
        self._cost += values.shape[0] * bounds.mixing_cost(count, mixing)

    def compiled_settings(self) -> dict[str, object] | None:
        """Return the settings for `play`; None if compiled code cannot play this learner."""
        settings, mixing = self._settings, self.fixed_mixing
        # A falling mixing, and questions that depend on weights, change from round to round.
        if mixing is None or settings.channel != "coordinate" or settings.interactive:
            return None
        return {
            "mixing": mixing,
            "named": -1,
            "exact_range": settings.range == "exact",
            "half_range": float(bounds.loss_ranges(settings.hypotheses, mixing)[1][0]),
            "adaptive_rate": self._rate == 0.0,
        }

    def play(self, noise: _core.Source, *arrays: Any) -> dict[str, int]:
        """Play rounds of a simulation in compiled code, with a fixed mixing."""
        found = _core.local_simulate_hedge(self._engine, noise, *arrays)
        labels, mixing = arrays[2], self.mixing(1)
        self._cost += labels.size * bounds.mixing_cost(self._settings.hypotheses, mixing)
        return found

    def _add_subsets(
        self, spec: RoundSpec, matrix: FloatArray, mixing: float, values: IntArray
    ) -> None:
        """Add ``(sum of u over Z - p0 sum of u) / (p1 - p0)``, unbiased for any subset size."""
        labels, size = matrix.shape[1], spec.subset_size
        assert size is not None
        randomizer = subset_randomizer(labels, size, spec.epsilon)
        if randomizer.inside is None:
            # The subset is uniform, whatever the label.
            return
        inside = randomizer.inside / 2.0**53
        other = (size - inside) / (labels - 1)
        by_label, total, largest = bounds.reuse(
            matrix, ("losses", mixing), lambda: _loss_table(matrix, mixing)
        )
        if largest <= bounds.SMALLEST_HALF_RANGE:
            return
        self._raise_start(largest)
        for start in range(0, values.shape[0], _ROWS):
            rows = values[start : start + _ROWS]
            sums = np.zeros((rows.shape[0], total.size))
            # The order is that of labels, for any number of reports.
            for place in range(size):
                sums += by_label[rows[:, place]]
            self._engine.add((sums - other * total) / (inside - other))

    def _raise_start(self, half_range: float) -> None:
        """Raise AdaHedge's spread so that its rate times an estimate is at most 1."""
        if self._rate > 0.0:
            return
        count = self._settings.hypotheses
        log_count = float(_core.local_log(float(count)))
        self._engine.raise_start(count * self._inverse * half_range * log_count)

    def risk_certificate(self) -> float:
        """Return ``2 D - D_0`` plus the cost of mixing, a bound on the expected KL-risk.

        With a fixed rate, ``log K / eta`` plus the sum of mix gaps instead of the first two.
        Nats, for one report a round; ``docs/privacy/local_learning.md``, B1.
        """
        if self._rate > 0.0:
            learned = math.log(self._settings.hypotheses) / self._rate + self._engine.gaps
        else:
            learned = 2.0 * self._engine.spread - self._engine.start
        return float(learned + self._cost)

    def risk_bound(self, rounds: int) -> float:
        """Return the bound for uniformly drawn coordinates; otherwise infinity.

        It holds for a fixed rate, and for AdaHedge on the worst-case range, with one report per
        round.
        """
        settings = self._settings
        mixing = self.fixed_mixing
        # The bound is proved only for uniformly drawn coordinates (docs/privacy/local_learning.md,
        # B1).
        if settings.channel != "coordinate" or settings.interactive:
            return math.inf
        if mixing is None:
            if self._rate > 0.0 or settings.range != "worst_case":
                return math.inf
            return bounds.endless_hedge_bound(
                settings.hypotheses, rounds, self._inverse, self.mixing
            )
        # The bound also holds for exact ranges, which only make estimates and their squares
        # smaller.
        if self._rate > 0.0:
            return bounds.hedge_bound(
                settings.hypotheses, rounds, self._inverse, mixing, self._rate
            )
        if settings.range != "worst_case":
            return math.inf
        return bounds.adaptive_hedge_bound(settings.hypotheses, rounds, self._inverse, mixing)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return cumulative losses, spread, and the sampling probabilities of the open rounds."""
        return {
            "engine": np.frombuffer(self._engine.state(), dtype=np.uint8),
            "cost": np.array([self._cost]),
            "rounds": np.array(list(self._shares), dtype=np.int64),
            "shares": np.array(list(self._shares.values()), dtype=np.float64),
        }

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Continue from `state`; raise for values that are impossible with these settings."""
        self._engine.restore(np.asarray(arrays["engine"], dtype=np.uint8).tobytes())
        rounds, shares = arrays["rounds"].tolist(), arrays["shares"].tolist()
        cost = float(arrays["cost"][0])
        # An estimate divides by its share, so a forged share could move the weights arbitrarily.
        fits = set(shares) <= {1.0 / self._settings.hypotheses}
        drawn = self._settings.interactive and all(0.0 < share <= 1.0 for share in shares)
        if not (fits or drawn):
            raise ValueError("state holds impossible chances")
        if not 0.0 <= cost < math.inf:
            raise ValueError("state holds an impossible cost")
        self._cost = cost
        self._shares = OrderedDict(zip(rounds, shares, strict=True))


def _loss_table(matrix: FloatArray, mixing: float) -> tuple[FloatArray, FloatArray, float]:
    """Return the losses, shape (M, K), their sums over labels, and the largest of them."""
    u = losses(matrix, mixing)
    return np.ascontiguousarray(u.T), u.sum(axis=1), float(np.abs(u).max())


def _adaptive_shares(weights: FloatArray, half_range: FloatArray) -> FloatArray:
    """Return q_j = 0.9 R_j sqrt(w_j (1 - w_j)) / sum + 0.1 / K, shape (K,).

    It is largest for hypotheses that are neither ruled out nor certain, and whose losses vary most.
    """
    importance = half_range * np.sqrt(weights * np.maximum(1.0 - weights, 0.0))
    # NumPy's `sum` may add in another order on another machine, which would change the question.
    total = float(np.cumsum(importance)[-1])  # The sum adds in a fixed order.
    count = weights.size
    if not total > 0.0:
        return np.full(count, 1.0 / count)
    return (1.0 - _EXPLORATION) * importance / total + _EXPLORATION / count


def _drawn_loss(coins: PublicCoins, shares: FloatArray) -> tuple[int, float]:
    """Return a loss drawn by public coins with given shares, and its probability.

    The chances are integers over 2^53, so that the returned probability is exact.
    """
    sums = np.cumsum(shares)  # The sum adds in a fixed order.
    # The last edge is exactly 2^53.
    edges = np.rint(sums / sums[-1] * 2.0**53).astype(np.int64)
    index = int(np.searchsorted(edges, coins.below(2**53), side="right"))
    lower = int(edges[index - 1]) if index else 0
    return index, (int(edges[index]) - lower) / 2.0**53
