"""The servers, which publish questions and predictions, and learn from private reports.

`DistributionLearner` plays rounds; `LocalHypothesisSelector` asks every user once, in any order.
"""

from __future__ import annotations

import base64
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _literals as literals
from dpoco._divergences import total_variations
from dpoco._validation import FloatArray, float_array, instance, positive_int, real_float, real_in
from dpoco.errors import HorizonExceeded, NoiseDominatesWarning, RoundOrderError, StateError
from dpoco.local._bounds import trivial_bound
from dpoco.local._client import ClientPool
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses, Labels, Prediction
from dpoco.local._messages import Report, ReportBatch, RoundSpec, all_questions, batches
from dpoco.local._posterior import Posterior
from dpoco.local._server import Arrays, Nonces, Server
from dpoco.local._settings import LARGEST_INFORMATION, Arguments, read_settings

IndexArray = NDArray[np.intp]

# Number of random questions that represent a family with too many questions.
_DRAWS = 2000
# Settings of a `LocalHypothesisSelector` that a `DistributionLearner` lets the user choose. The
# posterior is the Bayesian one; the mixing applies to loss queries only.
_FIXED = {
    "horizon": None, "learner": "posterior", "learning_rate": 1.0, "interactive": False,
    "protect": "label", "mixing": 0.01, "range": None, "open_rounds": 1,
}  # fmt: skip


class LocalHypothesisSelector(Server):
    """Selects one of K known distributions over M labels from private reports on labels.

    The selector is not interactive. Question number n is a function of the constructor's arguments,
    so the device of user n can compute it with another selector, and reports may come in any
    order, late, or never. Each user should answer a different question.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        The known distributions; without contexts.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    channel, query, bits, subset_size
        As for `DistributionLearner` with learner "posterior".
    public_seed : int, optional
        Seed of the public coins; by default from the operating system. Devices need it.

    Notes
    -----
    All results are post-processing of reports. All guarantees except privacy assume that one of the
    hypotheses is true. A report costs O(K M) for the means of its question. Methods may be called
    from several threads. Nonces of 64 bits identify reports. Among a million honest reports, two
    are mistaken for duplicates with probability 3e-8.
    """

    _kind = "LocalHypothesisSelector"
    _rule: Posterior

    def __init__(
        self,
        hypotheses: Hypotheses | ArrayLike,
        *,
        epsilon: float,
        channel: literals.Channel = "auto",
        query: literals.Query = "auto",
        bits: int | literals.Auto = 1,
        subset_size: int | None = None,
        public_seed: int | None = None,
    ) -> None:
        arguments = dict(
            epsilon=epsilon, channel=channel, query=query, bits=bits, subset_size=subset_size,
            public_seed=public_seed,
        )  # fmt: skip
        known = hypotheses if isinstance(hypotheses, Hypotheses) else Hypotheses(hypotheses)
        # Devices compute questions from the array and the seed only.
        if known.kind != "array":
            raise ValueError(
                "hypotheses must be an array of shape (K, M): no contexts, no callables"
            )
        settings = read_settings(known, {**_FIXED, **arguments})
        self._begin(known, settings, arguments, Posterior(settings))
        self._nonces = Nonces()
        self._answered: dict[int, int] = {}  # question -> number of reports
        self._weight_sum = np.zeros(known.count)
        self._last: RoundSpec | None = None

    def round_spec(self, number: int) -> RoundSpec:
        """Return question `number` >= 1, which depends only on the constructor's arguments.

        Parameters
        ----------
        number : int
            In [1, 2^63); questions may be asked in any order.

        Returns
        -------
        RoundSpec
            Specification to send to a device; O(K M), except for the last question.
        """
        index = positive_int("number", number, maximum=2**63 - 1)
        with self._lock:
            last = self._last
            if last is None or last.round != index:
                last = self._last = self._rule.specify(index, self.hypotheses.matrix())
            return last

    def update(self, reports: Report | ReportBatch | Iterable[Report]) -> None:
        """Learn from reports to any questions.

        Parameters
        ----------
        reports : Report, ReportBatch or iterable of Report
            Any number, in any order.

        Raises
        ------
        ValueError
            For reports that are malformed, answer no question of this selector (foreign) or have
            been taken before (duplicated). Then no report of the call is taken.
        """
        with self._lock:
            # All reports are checked before any is taken, so that a refused call changes nothing.
            nonces, taken = self._nonces.copy(), []
            for batch in batches(reports):
                spec = self.round_spec(batch.round)
                spec.check_reports(batch)
                nonces.add(batch.nonces)
                taken.append((spec, batch))
            matrix = self.hypotheses.matrix()
            total, answered = self._weight_sum.copy(), dict(self._answered)
            with self._whole_call():
                for spec, batch in taken:
                    # Reports are applied one by one, since `prediction` is the mean of the weights
                    # *before* each report.
                    for values in batch.values:
                        total += self._rule.weights
                        self._rule.apply(spec, matrix, values[None, :])
                    answered[spec.round] = answered.get(spec.round, 0) + len(batch)
                    self.reports += len(batch)
                    self._simulated = self._simulated or batch.simulated
                self._weight_sum, self._answered, self._nonces = total, answered, nonces

    def collect(self, pool: ClientPool, labels: Labels, users: ArrayLike | None = None) -> None:
        """Ask the users of a pool one unanswered question each, and learn.

        Parameters
        ----------
        pool : ClientPool
            The devices, for the same hypotheses.
        labels : sequence or integer array of shape (n,)
            One label per user; None and invalid labels mean "no event".
        users : integer array of shape (n,), optional
            Users who report; by default all users, in order.

        Raises
        ------
        BudgetExceeded, ValueError, TypeError
            As in `ClientPool.respond`; reports of earlier users have been taken.
        """
        members = np.arange(pool.users) if users is None else np.asarray(users)
        if len(labels) != members.size:
            raise ValueError(f"there must be one label for each of {members.size} users")
        with self._lock:
            # Smaller numbers without an answer may be those of devices that report late.
            number = max(self._answered, default=0)
            for user, label in zip(members, labels, strict=True):
                number += 1
                batch = pool.respond(self.round_spec(number), None, [label], [user])
                self.update(batch)

    @property
    def map_index(self) -> int:
        """The most likely hypothesis; the first one if there is a tie."""
        return int(np.argmax(self.posterior()))

    def prediction(self) -> Prediction:
        """Return the mean of the mixtures before each report, O(K): see `expected_tv_bound`.

        Before the first report, the uniform mixture. ``docs/privacy/local_learning.md``, B5.
        """
        with self._lock:
            count = self.hypotheses.count
            mean = self._weight_sum / self.reports if self.reports else np.full(count, 1 / count)
        return Prediction(mean, 0.0, matrix=self.hypotheses.matrix())

    def decided(self, alpha: float, beta: float) -> bool:
        """Return whether all members of ``confidence_set(beta)`` are within `alpha` of each other.

        This is a stopping rule: with probability at least ``1 - beta``, whenever it returns True,
        every member, including `map_index`, is within total variation `alpha` of the truth. O(K^2
        M).

        Parameters
        ----------
        alpha : float
            Acceptable total variation distance.
        beta : float
            Probability of a wrong answer at any time, in (0, 1).
        """
        near = real_float("alpha", alpha)
        members = self.hypotheses.matrix()[self.confidence_set(beta)]
        return bool(total_variations(members).max() <= near)

    def expected_tv_bound(self, users: int | None = None) -> float:
        """Return a bound on the expected total variation distance of `prediction` from the truth.

        The number of reports is by default that taken so far: ``min(1, s sqrt(log K / (2
        users)))``, s = C sqrt(M) for bits with ``query="hadamard"`` and 1/c for subsets of one
        label; 1 for other questions, which have no such bound.

        Parameters
        ----------
        users : int, optional
            Number of reports.
        """
        number = self.reports if users is None else positive_int("users", users)
        count = self.hypotheses.count
        if count == 1 or self.hypotheses.labels == 1:
            return 0.0
        strength = self._rule.variation_strength()
        return min(1.0, strength * math.sqrt(math.log(count) / (2.0 * number))) if number else 1.0

    def information(self) -> FloatArray:
        """Return the information of the answers on pairs of hypotheses, shape (K, K), in nats.

        Entry (i, j) is the sum over reports of ``-log`` of the Bhattacharyya coefficient of the
        distributions under i and j: j is as likely as a true i with probability at most
        ``exp(-entry)``. O(K^2 + K M) per answered question; K <= 512. If there are too many subsets
        to list, it is a lower bound. It depends on the questions, not on the answers.
        """
        if self.hypotheses.count > LARGEST_INFORMATION:
            raise ValueError(f"information() takes at most {LARGEST_INFORMATION} hypotheses")
        with self._lock:
            matrix = self.hypotheses.matrix()
            total = np.zeros((len(matrix), len(matrix)))
            # The order is fixed, since sums of doubles depend on it.
            for number, times in sorted(self._answered.items()):
                for told in self._rule.information_parts(self.round_spec(number), matrix):
                    total += times * told
        return total

    def error_bound(self, alpha: float = 0.0) -> float:
        """Return a bound on the probability that `map_index` is not within `alpha` of the truth.

        ``max_i sum_{j: TV(i, j) > alpha} exp(-information_ij)``, at most 1. It holds if the number
        of reports was fixed beforehand, not if it was chosen by looking at results.

        Parameters
        ----------
        alpha : float
            Acceptable total variation distance.
        """
        apart = total_variations(self.hypotheses.matrix()) > real_float("alpha", alpha)
        confused = np.where(apart, np.exp(-self.information()), 0.0)
        return min(1.0, float(confused.sum(axis=1).max()))

    def undecidable(self, alpha: float = 0.0, beta: float = 0.05) -> IndexArray:
        """Return the pairs that the answered questions may confuse, shape (n, 2), worst first.

        Pairs i < j further than `alpha` apart with ``exp(-information_ij) > beta / (K - 1)``; with
        none left, `error_bound` is at most `beta`. This family of questions cannot distinguish
        pairs that remain after many answers; choose another family.

        Parameters
        ----------
        alpha : float
            Acceptable total variation distance.
        beta : float
            In (0, 1).
        """
        near, level = real_float("alpha", alpha), real_in("beta", beta, "(0, 1)")
        known = self.information()
        # Only entries above the diagonal, so that each pair comes once.
        apart = np.triu(total_variations(self.hypotheses.matrix()) > near, 1)
        short = known < math.log(max(known.shape[0] - 1, 1) / level)
        first, second = np.nonzero(apart & short)
        order = np.argsort(known[first, second], kind="stable")
        return np.stack([first[order], second[order]], axis=1)

    def _state_parts(self) -> tuple[Arguments, dict[str, NDArray[np.generic]]]:
        answered = np.array(sorted(self._answered.items()), dtype=np.int64).reshape(-1, 2)
        return {}, {
            "hypotheses": self.hypotheses.matrix(),
            "weight_sum": self._weight_sum,
            "answered": answered,
            "nonces": self._nonces.all(),
        }

    def _continue(self, body: Arguments, arrays: Arrays) -> None:
        answered = np.asarray(arrays["answered"], dtype=np.int64)
        total = np.array(arrays["weight_sum"], dtype=np.float64)
        nonces = np.unique(np.asarray(arrays["nonces"], dtype=np.uint64))
        count = int(answered[:, 1].sum())
        if (
            (answered.size and answered.min() < 1)
            # All nonces differ; `unique` has dropped repeated ones.
            or nonces.size != count
            or total.shape != (self.hypotheses.count,)
            # The weights before each report sum to 1.
            or not np.isclose(total.sum(), count)
        ):
            raise StateError("state is corrupt: impossible counts")
        self._answered = {number: times for number, times in answered.tolist()}
        self.reports, self._weight_sum = count, total
        if count:
            self._nonces.add(nonces)


def required_users(
    hypotheses: Hypotheses | ArrayLike,
    *,
    epsilon: float,
    alpha: float = 0.0,
    beta: float = 0.05,
    channel: literals.Channel = "auto",
    query: literals.Query = "auto",
    bits: int | literals.Auto = 1,
    subset_size: int | None = None,
    seed: int = 0,
) -> float:
    """Return the number of reports that select a hypothesis within `alpha` of the true one.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        The hypotheses, without contexts; K at most 512.
    epsilon : float
        Privacy of one report, in (0, 30].
    alpha : float, default 0
        Acceptable total variation distance, in [0, 1).
    beta : float, default 0.05
        Probability of failure, in (0, 1).
    channel, query, bits, subset_size
        As for `LocalHypothesisSelector`; every report answers its own question.
    seed : int, default 0
        Seed of the public coins if there are too many questions to list.

    Returns
    -------
    int or inf
        The smallest n with ``max_i sum_{j: TV(i, j) > alpha} BC_ij^n <= beta``, ``BC_ij`` the
        Bhattacharyya coefficient of a report's distributions under hypotheses i and j, averaged
        over questions. The most likely hypothesis after n reports then is within `alpha` of the
        truth with probability at least ``1 - beta``, if the truth is one of them. 0 if all
        hypotheses are within `alpha` of each other; inf if no question of the channel distinguishes
        two others.

    Notes
    -----
    The result is exact for at most 5000 questions; otherwise it is an average over 2000 public
    draws. If there are too many subsets to list, each counts as one label drawn from it, and n is
    an upper bound. O(K^2) per question, plus O(K M) for its means.
    `docs/privacy/local_learning.md`, B5.

    Examples
    --------
    >>> from dpoco.local import required_users
    >>> required_users([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], epsilon=1.0)
    75
    """
    near, failure = real_in("alpha", alpha, "[0, 1)"), real_in("beta", beta, "(0, 1)")
    selector = LocalHypothesisSelector(
        hypotheses, epsilon=epsilon, channel=channel, query=query, bits=bits,
        subset_size=subset_size, public_seed=seed,
    )  # fmt: skip
    known = selector.hypotheses
    if known.count > LARGEST_INFORMATION:
        raise ValueError(f"required_users takes at most {LARGEST_INFORMATION} hypotheses")
    matrix = known.matrix()
    apart = total_variations(matrix) > near
    if not apart.any():
        return 0
    gaps = mean_affinity_gap(selector)
    if (gaps[apart] <= 0.0).any():
        return math.inf
    # BC_ij is 1 - gap, which keeps the digits of tiny gaps. A gap of 1 would have no logarithm.
    logs = np.where(apart, np.log1p(-np.minimum(gaps, 1.0 - 1e-16)), -np.inf)

    def failing(n: int) -> bool:
        with np.errstate(under="ignore", invalid="ignore"):
            return bool(np.exp(float(n) * logs).sum(axis=1).max() > failure)

    most = 1
    while failing(most):
        most *= 2
    # The sums fall with n, so the smallest n is found by bisection. It is written out, since n may
    # exceed the length of any sequence.
    few = most // 2
    while most - few > 1:
        middle = (few + most) // 2
        few, most = (middle, most) if failing(middle) else (few, middle)
    return most


def mean_affinity_gap(selector: LocalHypothesisSelector) -> FloatArray:
    """Return one minus the mean Bhattacharyya coefficient of a report, shape (K, K).

    The mean is over the questions of the selector's channel. Small gaps have a small relative
    error; gaps within rounding error are 0.
    """
    matrix, settings, rule = selector.hypotheses.matrix(), selector.settings, selector._rule
    count, labels = matrix.shape
    total, asked = np.zeros((count, count)), 0
    if labels == 1 or count == 1:
        return total
    # The subset channel has only one question, the same for all users.
    numbers: Iterable[int] = range(1, 2 if settings.channel == "subset" else _DRAWS + 1)
    specs = (rule.specify(number, matrix) for number in numbers)
    every = None if settings.bits > 1 else all_questions(settings.query, count, labels)
    if every is not None and settings.channel != "subset":
        specs = (rule.specify(1, matrix, (question,)) for question in every)
    for spec in specs:
        total -= np.expm1(-np.sum(rule.information_parts(spec, matrix), axis=0))
        asked += 1
    return total / asked


@dataclass(frozen=True, eq=False)
class MedianSelection:
    """The row selected among independent answers.

    Attributes
    ----------
    index : int
        Index of the row.
    distribution : array of shape (M,)
        The row itself.
    radius : float
        Median total variation distance of the row to all rows, including itself.
    failure : float
        ``exp(-R / 18)``: bound on the probability that the row is further than 3 alpha from the
        truth, if each row is within alpha with probability at least 2/3.
    """

    index: int
    distribution: FloatArray
    radius: float
    failure: float


def median_select(distributions: ArrayLike) -> MedianSelection:
    """Choose among answers of disjoint groups of users, with exponentially rare failures.

    Parameters
    ----------
    distributions : array of shape (R, M)
        One distribution per group, e.g. ``selector.prediction().all()`` of each.

    Returns
    -------
    MedianSelection
        The row whose median total variation distance to all rows (the ceil(R/2)-th smallest, its
        own 0 included) is smallest; the first of several.

    Notes
    -----
    O(R^2 M). If each row is within alpha of the truth with probability at least 2/3, independently,
    the chosen one is within 3 alpha with probability at least ``1 - exp(-R / 18)``. With this
    probability (Hoeffding) more than half of the rows are within alpha of the truth. These are
    within 2 alpha of each other, so the chosen median is at most 2 alpha, and one of the ceil(R/2)
    rows within it is near the truth. A group whose expected distance is at most r has alpha = 3 r,
    by Markov's inequality.
    """
    rows = float_array("distributions", distributions, (None, None))
    if rows.size == 0:
        raise ValueError("distributions must have at least one row and one label")
    if not ((rows >= 0.0).all() and (np.abs(rows.sum(axis=1) - 1.0) <= 1e-6).all()):
        raise ValueError("rows must be distributions: not negative, of sum 1")
    # A row's distance 0 to itself counts, so that the ceil(R/2)-th smallest covers half of the
    # rows.
    distances = np.sort(total_variations(rows), axis=1)
    medians = distances[:, (rows.shape[0] + 1) // 2 - 1]
    index = int(np.argmin(medians))
    chosen = rows[index].copy()
    return MedianSelection(index, chosen, float(medians[index]), math.exp(-rows.shape[0] / 18.0))


class DistributionLearner(Server):
    """Learns from private reports which of K conditional distributions the labels follow.

    By default **the server knows the context of every round**, and a report protects only the
    label. ``protect="label_and_context"`` protects both.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K known distributions over M labels.
    epsilon : float
        Privacy of one whole report, in (0, 30].
    horizon : int, optional
        Rounds T; None for an endless stream.
    learner : {"posterior", "hedge"}
        ``posterior``: tempered Bayes on the messages, best if one hypothesis is right. ``hedge``: a
        guarantee for arbitrary labels, and private contexts.
    learning_rate : float or "worst_case", optional
        For the posterior: power of the likelihood, in (0, 1]; default 0.75. For hedge: a fixed
        rate, or "worst_case" for the rate of the bound; default AdaHedge.
    channel : {"auto", "bit", "subset", "coordinate"}
        Kind of report. ``auto``: the posterior picks one bit or a subset of labels by mutual
        information, from public data; hedge asks for one coordinate. Otherwise "bit" or "subset"
        for the posterior, "coordinate" (one bit about one loss) or "subset" for hedge.
    query : {"auto", "bisection", "scheffe", "mean_test", "hadamard", "loss"}
        Family of the questions behind bits. ``auto`` is bisection, or with `interactive` a question
        that splits the current weights.
    bits : int or "auto", default 1
        Number of bits per report, each with epsilon / bits.
    interactive : bool, default False
        Whether the next question may depend on current weights; devices must then receive it. Hedge
        then prefers questions about uncertain hypotheses.
    protect : {"label", "label_and_context"}
        Data that one report protects; the second value needs ``learner="hedge"``.
    mixing : float, optional
        Share of the uniform mixture in predictions; by default the learner's own.
    range : {"exact", "worst_case"}, optional
        Range of loss queries; by default exact for arrays under scope ``label``.
    subset_size : int, optional
        Size of subsets; 1 is randomized response. By default the most informative. ``auto`` takes
        no subsets of more than 4096 labels, nor of more than 4096 bits, d log2 M.
    public_seed : int, optional
        Seed of the public coins in [0, 2^64); by default from the operating system. Public.
    open_rounds : int, default 1
        Number of latest rounds that accept reports; with callables, each keeps its (K, M) array.

    Attributes
    ----------
    round : int
        Number of rounds opened so far.

    Notes
    -----
    The server only post-processes reports that are already private: it adds no noise, and its
    copies share no noise. The state is a function of specifications and reports, bit for bit, on
    every machine. Methods may be called from several threads, one at a time each. Proofs:
    ``docs/privacy/local_randomizers.md`` (privacy) and ``docs/privacy/local_learning.md`` (risks).

    Examples
    --------
    >>> from dpoco.local import ClientPool, DistributionLearner, Hypotheses
    >>> known = Hypotheses([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    >>> learner = DistributionLearner(known, epsilon=2.0, horizon=1)
    >>> spec = learner.round_spec()
    >>> pool = ClientPool(known, users=1000, epsilon_max=2.0)
    >>> learner.update(spec, pool.respond(spec, None, [2] * 900 + [0] * 100))
    >>> learner.weights.shape, learner.guarantee.epsilon <= 2.0
    ((2,), True)
    """

    _kind = "DistributionLearner"

    def __init__(
        self,
        hypotheses: Hypotheses,
        *,
        epsilon: float,
        horizon: int | None = None,
        learner: literals.LocalLearner = "posterior",
        learning_rate: float | Literal["worst_case"] | None = None,
        channel: literals.Channel = "auto",
        query: literals.Query = "auto",
        bits: int | literals.Auto = 1,
        interactive: bool = False,
        protect: literals.Protect = "label",
        mixing: float | None = None,
        range: literals.Range | None = None,
        subset_size: int | None = None,
        public_seed: int | None = None,
        open_rounds: int = 1,
    ) -> None:
        arguments = dict(
            epsilon=epsilon, horizon=horizon, learner=learner, learning_rate=learning_rate,
            channel=channel, query=query, bits=bits, interactive=interactive, protect=protect,
            mixing=mixing, range=range, subset_size=subset_size, public_seed=public_seed,
            open_rounds=open_rounds,
        )  # fmt: skip
        settings = read_settings(
            instance("hypotheses", hypotheses, Hypotheses, "Hypotheses"), arguments
        )
        rule = Posterior(settings) if learner == "posterior" else Hedge(settings)
        self._begin(hypotheses, settings, arguments, rule)
        self.round = 0
        self._open: dict[int, OpenRound] = {}

    @property
    def weights(self) -> FloatArray:
        """Current weights of the hypotheses, shape (K,), read-only."""
        with self._lock:
            weights = self._rule.weights
        weights.flags.writeable = False
        return weights

    def round_spec(self, x: Any = None) -> RoundSpec:
        """Open the next round and return its public specification.

        Parameters
        ----------
        x : object, optional
            The round's context; None for an array of hypotheses, and under private contexts.

        Returns
        -------
        RoundSpec
            Specification to send to the devices. The oldest open round closes if too many are open.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds.
        ValueError, TypeError
            For a context that the hypotheses do not know; no round is opened.
        """
        with self._lock:
            self._check_left(1)
            number = self.round + 1
            if self.settings.protect == "label":
                matrix = self.hypotheses.matrix(x)
            elif x is None:
                matrix = None
            else:
                raise ValueError("contexts are private: round_spec() takes none")
            # All errors occur before the last line, which opens the round.
            spec = self._rule.specify(number, matrix)
            context = int(x) if self.hypotheses.kind == "table" and matrix is not None else None
            self._open[number] = OpenRound(spec, matrix, context)
            self._open.pop(number - self.settings.open_rounds, None)
            self.round = number
        return spec

    def _check_left(self, count: int) -> None:
        """Raise `HorizonExceeded` if fewer than `count` rounds are left."""
        horizon = self.settings.horizon
        if horizon is not None and self.round + count > horizon:
            raise HorizonExceeded(
                f"rounds asked for: {count}, left: {horizon - self.round} of {horizon}"
            )

    def predict(self, x: object = None) -> Prediction:
        """Return the prediction for context `x` from the current weights.

        Until a report to the latest round arrives, the prediction is for that round; then it is for
        the next one, because the share of the uniform mixture may depend on the round.

        Parameters
        ----------
        x : object, optional
            As in `round_spec`; it need not be the context of an open round.

        Raises
        ------
        ValueError
            With private contexts, since then devices predict with `DevicePredictor`.
        """
        if self.settings.protect != "label":
            raise ValueError("contexts are private: use DevicePredictor on the device")
        with self._lock:
            matrix = self.hypotheses.matrix(x)
            return Prediction(self._rule.weights, self._rule.mixing(self._turn()), matrix=matrix)

    @property
    def mixing(self) -> float:
        """Current share of the uniform mixture in the prediction; broadcast with the weights."""
        with self._lock:
            return self._rule.mixing(self._turn())

    def _turn(self) -> int:
        """Return the round of a prediction made now."""
        latest = self._open.get(self.round)
        turn = self.round + (latest is None or len(latest.nonces) > 0)
        horizon = self.settings.horizon
        return turn if horizon is None else min(turn, horizon)

    def update(self, spec: RoundSpec, reports: Report | ReportBatch | Iterable[Report]) -> None:
        """Learn from reports to one specification.

        Parameters
        ----------
        spec : RoundSpec
            Of an open round.
        reports : Report, ReportBatch or iterable of Report
            Any number, also none; `hedge` processes them in this order.

        Raises
        ------
        RoundOrderError
            If the round is closed (late reports) or was never opened. Nothing changes.
        ValueError
            For reports that are malformed, answer another specification (foreign) or have been
            taken before (duplicated). Then no report of the call is taken.
        """
        with self._lock:
            opened = self._find_open(spec)
            # Nonces are copied, since a refused call must not use any.
            taken, nonces = batches(reports), opened.nonces.copy()
            for batch in taken:
                opened.spec.check_reports(batch)
                nonces.add(batch.nonces)
            # No report is refused from here on, so that weights and nonces change together.
            with self._whole_call():
                for batch in taken:
                    self._rule.apply(opened.spec, opened.matrix, batch.values)
                    self.reports += len(batch)
                    self._simulated = self._simulated or batch.simulated
                opened.nonces = nonces

    def _find_open(self, spec: RoundSpec) -> OpenRound:
        """Return the open round of a specification, or raise."""
        instance("spec", spec, RoundSpec, "a RoundSpec")
        if spec.round > self.round:
            raise RoundOrderError(f"round {spec.round} has not been opened")
        if spec.round not in self._open:
            raise RoundOrderError(f"late: round {spec.round} is closed")
        opened = self._open[spec.round]
        if opened.spec.digest != spec.digest:
            raise ValueError(f"foreign specification: not that of round {spec.round}")
        return opened

    def risk_certificate(self) -> float:
        """Return hedge's bound on the expected KL-risk so far (not a high-probability bound)."""
        if not isinstance(self._rule, Hedge):
            raise ValueError("only learner 'hedge' has a risk certificate")
        with self._lock:
            return self._rule.risk_certificate()

    def risk_bound(self, rounds: int | None = None) -> float:
        """Return an upper bound on the expected KL-risk, in nats, with one report per round.

        Parameters
        ----------
        rounds : int, optional
            T; by default the horizon.

        Returns
        -------
        float
            The smaller of T log(K / mixing), which holds for all predictions with that mixing, and
            the learner's bound. The posterior's bounds assume that one hypothesis is right; hedge's
            hold for any labels, as regret against the best hypothesis.

        Warns
        -----
        NoiseDominatesWarning
            If it exceeds T log K, the risk of ignoring all reports.

        Raises
        ------
        ValueError
            Without a horizon and without `rounds`.
        """
        number = self.settings.horizon if rounds is None else positive_int("rounds", rounds)
        if number is None:
            raise ValueError("rounds must be given: the learner has no horizon")
        count = self.hypotheses.count
        # Both bounds hold, so the smaller one holds.
        bound = min(trivial_bound(count, self._rule.mixing, number), self._rule.risk_bound(number))
        ignored = number * math.log(count)
        if bound > ignored:
            warnings.warn(
                f"the bound of {bound:.4g} nats exceeds the {ignored:.4g} of ignoring all reports",
                NoiseDominatesWarning,
                stacklevel=2,
            )
        return bound

    def _state_parts(self) -> tuple[Arguments, dict[str, NDArray[np.generic]]]:
        known, rounds, arrays = self.hypotheses, [], dict[str, NDArray[np.generic]]()
        for index, opened in enumerate(self._open.values()):
            spec = base64.b64encode(opened.spec.to_bytes()).decode()
            rounds.append({"spec": spec, "context": opened.context})
            arrays[f"nonces.{index}"] = opened.nonces.all()
            if known.kind == "callable" and opened.matrix is not None:
                # The context may be of any type, so only its matrix is saved.
                arrays[f"matrix.{index}"] = opened.matrix
        if known.array is not None:
            arrays["hypotheses"] = known.array
        body = {
            "hypotheses": known.to_dict(),
            "round": self.round,
            "reports": self.reports,
            "rounds": rounds,
        }
        return body, arrays

    @classmethod
    def _present(cls, arguments: Arguments) -> Arguments:
        """Return a state's arguments under their present names; older states have more."""
        given = super()._present(arguments)
        # Noise on all losses was another channel, which no rule here supports.
        if given.pop("delta", None) or given.pop("noise", None):
            raise StateError("the state is of a channel with additive noise: no longer supported")
        if "learning_rate" in given:
            return given
        power, rate = given.pop("temperature"), given.pop("eta")
        given["learning_rate"] = power if given["learner"] == "posterior" else rate
        if given["learner"] == "hedge" and given["channel"] == "bit":
            given["channel"] = "auto"
        if given["learner"] == "hedge" or given["query"] == "adaptive":
            given["query"] = "auto"
        for name in ("sampling", "sensitivity"):
            del given[name]
        return given

    def _continue(self, body: Arguments, arrays: Arrays) -> None:
        # States are not secret, and files can be forged, so impossible counts are refused.
        last, reports = body["round"], body["reports"]
        horizon = self.settings.horizon
        if (
            # `True` is an `int` for `isinstance`.
            any(type(count) is not int or count < 0 for count in (last, reports))
            or last > (2**63 - 1 if horizon is None else horizon)
            # The posterior's engine also counts reports.
            or (isinstance(self._rule, Posterior) and self._rule.reports != reports)
        ):
            raise StateError("state is corrupt: impossible counts")
        self._open = self._reopen(body, arrays)
        if sum(len(opened.nonces) for opened in self._open.values()) > reports:
            raise StateError("state is corrupt: impossible counts")
        self.round, self.reports = last, reports

    def _reopen(self, body: Arguments, arrays: Arrays) -> dict[int, OpenRound]:
        """Return the open rounds of a state by number; raise for impossible ones."""
        hypotheses, settings = self.hypotheses, self.settings
        if body.get("blocks"):
            raise StateError("the state has rounds that were opened together: no longer supported")
        found: list[OpenRound] = []
        for index, record in enumerate(body["rounds"]):
            spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
            context, matrix = record["context"], None
            if settings.protect == "label":
                if hypotheses.kind == "callable":
                    given = arrays[f"matrix.{index}"]
                    # The matrix is read as hypotheses, which checks that its rows are
                    # distributions.
                    matrix = Hypotheses(given, hypotheses.count, hypotheses.labels).matrix()
                else:
                    matrix = hypotheses.matrix(context)
            # Answers to a question of another class or seed would change the weights.
            asked = (spec.hypotheses, spec.labels, spec.fingerprint, spec.epsilon)
            own = (settings.hypotheses, settings.labels, settings.fingerprint, settings.epsilon)
            if asked != own or not self._rule.accepts(spec, matrix):
                raise StateError("state is corrupt: a round is not of this learner")
            nonces = arrays[f"nonces.{index}"]
            if nonces.dtype != np.uint64 or nonces.ndim != 1:
                raise StateError("state is corrupt: impossible nonces")
            found.append(OpenRound(spec, matrix, context))
            if nonces.size:
                found[-1].nonces.add(nonces.astype(np.uint64))
        numbers = [opened.spec.round for opened in found]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            raise StateError("state is corrupt: a round comes twice")
        last = body["round"]
        if numbers and not (last - settings.open_rounds < numbers[0] and numbers[-1] <= last):
            raise StateError("state is corrupt: impossible counts")
        return {opened.spec.round: opened for opened in found}


@dataclass
class OpenRound:
    """A round that takes reports.

    Attributes
    ----------
    spec : RoundSpec
        The published specification.
    matrix : array of shape (K, M), or None
        The hypotheses in its context; None if contexts are private.
    context : int or None
        Context of a table, for the state; a callable's context may be of any type and is not kept.
    nonces : Nonces
        Nonces of the reports taken.
    """

    spec: RoundSpec
    matrix: NDArray[np.float64] | None
    context: int | None
    nonces: Nonces = field(default_factory=Nonces)
