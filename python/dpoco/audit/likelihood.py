"""Likelihood audit: exact privacy losses of whole transcripts, compared with the claimed curve.

If the law of a learner's releases given the stream is known, the privacy loss of a run, L = log
P(transcript | its stream) - log P(transcript | neighbour), can be computed exactly. The law of L
determines everything about these two streams: delta(epsilon) = E max(0, 1 - exp(epsilon - L)). Runs
of the real learner are scored. Every statement below holds except with probability 1 - confidence,
without any assumption on the law of L.

1. The scores are those of the learner. This tests identities that hold for likelihood ratios of any
two
   laws, and the law of the noise itself.
2. No point of the measured curve lies above the claimed one.

Statements, proofs and limits: ``docs/privacy/replay_and_likelihood.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from dpoco._validation import FloatArray, positive_int, real_in, whole_number
from dpoco.accounting import Guarantee
from dpoco.audit._family import Learner, Make, Stream, make_fresh
from dpoco.audit._kinds import find_scorer
from dpoco.audit._laws import Scorer, Scores
from dpoco.audit.report import Claim, Findings, bound_text, confidence_text, headline, judge
from dpoco.random import Source

# Multiples of the claimed epsilon at which the curves are compared.
_MULTIPLES = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
# Cuts of likelihood ratios in the identities.
_CUTS = (0.5, 1.0, 2.0)
# Factors on all losses, to find the smallest that would have been noticed; if none is, infinity.
_FACTORS = np.geomspace(1.0, 16.0, 81)
# Error of log-likelihoods from grids of the releases and from quadratures.
ROUNDING = 1e-3

Pair = tuple[FloatArray, FloatArray]

# Largest number of pairs of steps or entries to compare one by one, nearest first: all pairs of 32.
_PAIRS = 496
# Number of lags whose pairs are compared together.
_LAGS = 256
# If the uniform bound of the trials is wider, they show nothing.
_WIDEST = 0.25


@dataclass(frozen=True)
class LikelihoodReport(Findings):
    """Outcome of a likelihood audit; computed from raw data, and so not private.

    Attributes
    ----------
    epsilon, delta : float
        The claim: a point of the curve, which is tested as a whole.
    trials : int
        Number of runs on each of the two streams.
    confidence : float
        Probability of not reporting a violation if there is none.
    findings : tuple of str
        Violations, in words; empty if none was found.
    curve : tuple of (float, float, float, float)
        Epsilon, measured delta (in the worse direction), its lower bound, claimed delta.
    largest_loss : float
        Largest privacy loss of any run.
    detectable : float
        Smallest factor such that losses larger by this factor would have been reported; infinite if
        it exceeds 16.
    """

    epsilon: float
    delta: float
    trials: int
    confidence: float
    findings: tuple[str, ...]
    curve: tuple[tuple[float, float, float, float], ...] = field(repr=False)
    largest_loss: float
    detectable: float

    def __str__(self) -> str:
        at_worst = max(self.curve, key=lambda row: row[2] / row[3] if row[3] > 0.0 else row[2])
        power = (
            f"losses {bound_text(self.detectable, 3, up=True)} times as large would have been "
            "reported"
            if np.isfinite(self.detectable)
            else "losses 16 times as large would not have been reported: choose streams that "
            "differ more, or more trials"
        )
        return "\n".join(
            [
                headline(
                    "Likelihood audit", self.epsilon, self.delta,
                    judge(self.violated, self.powerful), power="to speak of could have shown",
                ),
                f"  {self.trials} runs on each stream, largest loss {self.largest_loss:.4g}",
                f"  at epsilon {at_worst[0]:.4g}: delta {at_worst[1]:.4g} measured, at least "
                f"{bound_text(at_worst[2])}, claimed {at_worst[3]:.4g}",
                f"  {power}, at confidence {confidence_text(self.confidence)}",
                *(f"  - {text}" for text in self.findings),
            ]
        )  # fmt: skip


def likelihood_audit(
    make_learner: Make,
    stream: Stream,
    neighbour: Stream,
    trials: int,
    *,
    seed: int = 0,
    confidence: float = 1.0 - 1e-6,
) -> LikelihoodReport:
    """Score runs of a learner on two neighbouring streams by their exact likelihoods.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: a new, unstarted learner or mechanism with a known distribution. This
        is true for all of this library, with Gaussian noise if sums are released, and in one
        dimension for the coupled learners. It is called for every run, so pass `plan` to avoid
        repeated calibration.
    stream, neighbour : array or tuple of arrays
        See `replay_audit`. They differ in the record of one round, or in rounds that one person may
        have if the guarantee is for people. Rows of scores of a `NoisyMax`, and queries of an
        `AboveThreshold`, may differ in every round, by at most the promised amount.
    trials : int
        Number of runs on each of the two streams.
    seed : int, default 0
        Seed of the runs.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation if there is none.

    Returns
    -------
    LikelihoodReport

    Raises
    ------
    TypeError
        For a learner with an unknown distribution, and if the same learner is not made again.
    ValueError
        For streams that are not neighbours, too few trials to refute anything, and a learner
        without a privacy guarantee.

    Notes
    -----
    Plays ``2 * trials`` runs in Python. Learners on sums also need O(T^2) memory, and detectors
    O(T^2) for every transcript that occurs.

    Examples
    --------
    >>> from dpoco.audit import likelihood_audit, standard_case
    >>> case = standard_case("noisy-max")
    >>> likelihood_audit(case.make_learner, case.stream, case.neighbour, trials=500).violated
    False
    """
    count = positive_int("trials", trials)
    level = real_in("confidence", confidence, "(0, 1)")
    # A third of the error each for curve, identities and noise
    # (docs/privacy/replay_and_likelihood.md).
    error = (1.0 - level) / 3.0
    least = fewest_trials(error / 4.0)
    if count < least:
        raise ValueError(f"trials must be at least {least} to show anything; got {count}")
    root = whole_number("seed", seed)
    template = make_fresh(make_learner, Source.seeded(root))
    guarantee = template.guarantee
    if not guarantee.private:
        raise ValueError("the learner has no privacy guarantee: there is no claim to test")
    scorer = find_scorer(template, stream, neighbour)
    # Both streams are played, because a curve has two directions and either may be worse.
    worlds = [_scores(make_learner, template, scorer, world, count, root) for world in (0, 1)]
    losses = [each.losses for each in worlds]
    curve, findings = _curve(losses, guarantee, error)
    findings = [
        *dict.fromkeys(text for each in worlds for text in each.findings),
        *_identities(losses, error),
        *uniform_findings(worlds, error, ROUNDING),
        *findings,
    ]
    largest = float(max(own.max() for own in losses))
    return LikelihoodReport(
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        trials=count,
        confidence=level,
        findings=tuple(findings),
        curve=tuple(curve),
        largest_loss=largest,
        detectable=_detectable(losses, guarantee, error, largest),
    )


def law_findings(
    make_learner: Make, stream: Stream, neighbour: Stream, trials: int, *, seed: int, error: float
) -> list[str] | None:
    """Return contradictions between runs on a stream and the declared law of noise and draws.

    It tests no claim, so a few runs are enough. None: the law is unknown.

    Parameters
    ----------
    make_learner, stream, neighbour, trials, seed
        See `likelihood_audit`.
    error : float
        Largest probability of a finding if there is nothing to find.

    Returns
    -------
    list of str, or None
        Findings; None if the law of such a learner, or on these streams, is unknown.
    """
    template = make_fresh(make_learner, Source.seeded(seed))
    try:
        scorer = find_scorer(template, stream, neighbour)
    except ValueError:
        return None
    scores = _scores(make_learner, template, scorer, 0, trials, seed)
    return [*scores.findings, *uniform_findings([scores], error, ROUNDING)]


def _scores(
    make_learner: Make, template: Learner, scorer: Scorer, world: int, count: int, root: int
) -> Scores:
    """Return scored runs of new learners on one of the scorer's streams.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``.
    template : Learner
        The first learner, with which new learners are compared.
    scorer : Scorer
        Scorer of both streams.
    world : int
        Stream to play.
    count, root : int
        Number of runs, and the seed from which their seeds are derived.
    """
    runs = []
    for i in range(count):
        # No run has the same seed as a run on the other stream or as the template.
        own_seed = (root << 64) + 2 * i + world + 1
        learner = make_fresh(make_learner, Source.seeded(own_seed), template)
        runs.append(scorer.run(learner, world, Source.seeded(own_seed)))
    return scorer.score(runs, world)


def _excesses(losses: FloatArray, epsilon: float) -> FloatArray:
    """Return max(0, 1 - exp(epsilon - L)), whose mean is delta(epsilon).

    Parameters
    ----------
    losses : ndarray, shape (trials,)
    epsilon : float
        At least 0, so that the excesses are in [0, 1].
    """
    return -np.expm1(np.minimum(0.0, epsilon - losses))


def _epsilons(guarantee: Guarantee) -> list[float]:
    """Return the epsilons at which the curves are compared."""
    return [guarantee.epsilon * multiple for multiple in _MULTIPLES]


def _lower(losses: FloatArray, epsilon: float, error: float) -> float:
    """Return a lower bound on delta(epsilon), for all of `_MULTIPLES` and both streams at once.

    It is the larger of a bound that is uniform over all epsilons and one for these alone. The
    second is better if few runs have an excess, because its width falls with their variance.
    """
    values = _excesses(losses, epsilon)
    # There are two bounds on two streams, so each gets a quarter of the error.
    uniform = float(values.mean()) - dkw(len(values), error / 4.0)
    single = mean_at_least(values, 1.0, error / 4.0 / len(_MULTIPLES))
    return max(uniform, single, 0.0)


def _curve(
    losses: list[FloatArray], guarantee: Guarantee, error: float
) -> tuple[list[tuple[float, float, float, float]], list[str]]:
    """Return the rows of a report's curve, and losses and points that exceed the claim.

    A pure claim bounds every single loss, so one run beyond it is enough.

    Parameters
    ----------
    losses : list of two ndarray, shape (trials,)
        Privacy losses of the runs on each stream.
    guarantee : Guarantee
        The claim.
    error : float
        Largest probability of a finding if there is none.
    """
    rows = []
    for epsilon in _epsilons(guarantee):
        measured = max(float(_excesses(own, epsilon).mean()) for own in losses)
        lower = max(_lower(own, epsilon, error) for own in losses)
        rows.append((epsilon, measured, lower, float(guarantee.delta_at(epsilon))))
    findings = above(rows, guarantee, "claimed")
    pure = guarantee.epsilon_at(0.0)
    largest = max(float(own.max()) for own in losses)
    if largest > pure * (1.0 + ROUNDING):
        findings.append(f"a run has privacy loss {largest:.6g}, claimed are at most {pure:.6g}")
    return rows, findings


def above(curve: Iterable[tuple[float, ...]], claim: Claim | Guarantee, word: str) -> list[str]:
    """Return the points of a measured curve that are above a claimed one.

    Parameters
    ----------
    curve : iterable of tuple
        Whether an attack or exercise found a violation. False does not mean there is none.
    claim : Claim or Guarantee
        Must have ``delta_at``.
    word : str
        Name of the claim: claimed or published.
    """
    findings = []
    for epsilon, measured, lower, _ in curve:
        claimed = claim.delta_at(epsilon)
        if lower > claimed + ROUNDING * min(1.0, claim.epsilon) * measured:
            least = bound_text(lower)
            findings.append(f"delta({epsilon:.4g}) is at least {least}, {word} is {claimed:.4g}")
    return findings


def _identities(losses: list[FloatArray], error: float) -> Iterator[str]:
    """Yield violations of E_P min(q/p, c) + E_Q max(0, 1 - c p/q) = 1: no likelihood ratios.

    For true likelihood ratios, the two expectations sum to 1 for any two laws. So this finds a
    scorer that is wrong about a learner's law before its losses are used.
    """
    # Two directions, several cuts, and two means for each of them.
    each = error / (4.0 * len(_CUTS))
    for direction, (own, other) in enumerate((losses, losses[::-1])):
        for cut in _CUTS:
            # exp overflows at 709.8, and a ratio of e^700 exceeds every cut.
            kept = np.minimum(np.exp(-np.maximum(own, -700.0)), cut)
            rest = np.maximum(0.0, 1.0 - cut * np.exp(-np.maximum(other, -700.0)))
            total = float(kept.mean() + rest.mean())
            width = deviation(kept, cut, each) + deviation(rest, 1.0, each)
            if not abs(total - 1.0) <= width + ROUNDING:
                yield (
                    f"likelihood ratios of world {direction} add up to {total:.4g} instead of 1 "
                    f"(+- {width:.2g}): the law that is drawn from is not the declared one"
                )


def _detectable(
    losses: list[FloatArray], guarantee: Guarantee, error: float, largest: float
) -> float:
    """Return the least factor on all losses that would be reported; inf if it exceeds 16."""
    pure = guarantee.epsilon_at(0.0)
    at_most = pure / largest if np.isfinite(pure) and largest > 0.0 else np.inf
    claims = [(epsilon, guarantee.delta_at(epsilon)) for epsilon in _epsilons(guarantee)]
    for factor in _FACTORS:
        if factor >= at_most:
            return float(max(at_most, 1.0))
        for epsilon, claimed in claims:
            if any(_lower(factor * own, epsilon, error) > claimed for own in losses):
                return float(factor)
    return float("inf")


# ---- bounds without assumptions ------------------------------------------------------------------


def dkw(count: int, error: float) -> float:
    """Return the largest deviation of an empirical distribution function, on both sides.

    Dvoretzky, Kiefer and Wolfowitz with Massart's constant; exceeded with probability at most
    `error`.
    """
    return math.sqrt(math.log(2.0 / error) / (2.0 * count))


def fewest_trials(error: float) -> int:
    """Return the least number of trials for which `dkw` is at most 1/4."""
    return math.ceil(math.log(2.0 / error) / (2.0 * _WIDEST**2))


def deviation(values: FloatArray, top: float, error: float) -> float:
    """Return the deviation of the mean of values in [0, top] from its expectation, on both sides.

    The smaller of empirical Bernstein (Maurer and Pontil, 2009) and Hoeffding; exceeded with
    probability at most `error`.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Independent; n is at least 2.
    top : float
        Their largest possible value.
    error : float
    """
    # Each bound gets half of the error. Bernstein's is one-sided, so each side gets a quarter.
    n, log = len(values), math.log(8.0 / error)
    variance = float(values.var(ddof=1))
    bernstein = math.sqrt(2.0 * variance * log / n) + 7.0 * top * log / (3.0 * (n - 1))
    return min(bernstein, top * math.sqrt(math.log(4.0 / error) / (2.0 * n)))


def mean_at_least(values: FloatArray, top: float, error: float) -> float:
    """Return a lower bound on the expectation of values in [0, top], by `deviation`."""
    # The upper side is not needed.
    return float(values.mean()) - deviation(values, top, 2.0 * error)


# ---- independent uniforms ------------------------------------------------------------------------

# The differences and the sums modulo 1 of pairs of independent uniforms are also independent
# uniforms if the pairs form no cycle, because every pair has a member that the pairs before it do
# not determine. All pairs of columns at one lag form no cycle, nor does one pair in all runs.


def uniform_findings(worlds: list[Scores], error: float, rounding: float) -> Iterator[str]:
    """Yield findings if the values are not samples of independent uniforms.

    Parameters
    ----------
    worlds : list of Scores
        Runs on both streams.
    error : float
        Largest probability of a finding if everything is correct.
    rounding : float
        Allowance for grids and quadratures.

    Notes
    -----
    By the inequality of Dvoretzky, Kiefer and Wolfowitz. A fifth of the error each is for the law,
    for repetitions at every lag, in every pair of steps, and in every pair of entries, and for
    draws. It sorts at most 2 (256 + 992) samples per stream.
    """
    share = error / (5.0 * len(worlds))
    for world, scores in enumerate(worlds):
        u = scores.uniforms
        if u.size:
            yield from _far(world, "the noise has another law than declared", u, share, rounding)
            steps = _nearest("steps", np.moveaxis(u, 1, 0))
            entries = _nearest("entries", np.moveaxis(u, 2, 0) if u.ndim == 3 else ())
            for pairs in (_pair_lags(u), steps, entries):
                yield from _find_repeats(world, pairs, share, rounding)
        for name, values in scores.draws.items():
            own = share / len(scores.draws)
            text = f"decisions are not drawn from what is released, seen by {name}"
            yield from _far(world, text, values, own, rounding)


def _distance(values: FloatArray) -> float:
    """Return the largest distance of an empirical distribution from the uniform one on [0, 1].

    This is the Kolmogorov-Smirnov distance; shape (n,), O(n log n).
    """
    ordered = np.sort(values)
    grid = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(grid[1:] - ordered), np.max(ordered - grid[:-1])))


def _far(world: int, text: str, values: FloatArray, error: float, rounding: float) -> Iterator[str]:
    """Yield a finding if values are farther from uniform than chance allows."""
    far = _distance(values.ravel())
    if not far <= dkw(values.size, error) + rounding:
        yield f"world {world}: {text} (distance {far:.3g})"


def _find_repeats(
    world: int, pairs: list[tuple[str, Pair]], error: float, rounding: float
) -> Iterator[str]:
    """Yield the worst pair of dependent uniforms, tested by sums and differences.

    Parameters
    ----------
    world : int
        Stream of the runs.
    pairs : list of (str, pair of ndarray)
        Name of each pair, and its values in all runs.
    error, rounding : float
        See `uniform_findings`.
    """
    for sign, how in ((-1.0, ""), (1.0, " with its sign changed")):
        worst, where = 0.0, ""
        for name, (first, second) in pairs:
            values = (first + sign * second).ravel()
            values -= np.floor(values)  # modulo 1; the operator is several times slower
            far = _distance(values)
            # Sums and differences of every pair are tested.
            allowed = dkw(values.size, error / (2.0 * len(pairs))) + rounding
            if not far <= allowed and not far <= worst:
                worst, where = far, name
        if where:
            yield f"world {world}: the noise repeats itself{how}, {where} (distance {worst:.3g})"


def _pair_lags(u: FloatArray) -> list[tuple[str, Pair]]:
    """Return, for every lag, all pairs at this lag together."""
    lags = range(1, min(u.shape[1], _LAGS + 1))
    return [(f"at a lag of {lag}", (u[:, :-lag], u[:, lag:])) for lag in lags]


def _nearest(what: str, parts: Iterable[FloatArray]) -> list[tuple[str, Pair]]:
    """Return pairs of parts, nearest first, as many as are compared one by one."""
    u = list(parts)
    pairs = ((first, first + lag) for lag in range(1, len(u)) for first in range(len(u) - lag))
    return [
        (f"in {what} {first + 1} and {second + 1}", (u[first], u[second]))
        for first, second in islice(pairs, _PAIRS)
    ]
