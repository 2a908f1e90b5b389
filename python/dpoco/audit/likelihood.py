"""Likelihood audit: exact privacy losses of whole transcripts, against the claimed curve.

Where the law of what a learner releases is known given the stream, the privacy loss of a run,
L = log P(transcript | its stream) - log P(transcript | neighbour), is a number that can be computed
exactly. Its law says everything about these two streams: delta(epsilon) = E max(0, 1 - exp(epsilon
- L)). Runs of the real learner are scored; every statement below holds but for a probability of
1 - confidence, without any assumption on the law of L.

1. The scores are those of the learner: identities that hold for likelihood ratios of any two laws,
   and the law of the noise itself.
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
# By how much all losses are enlarged to see what would have been noticed; beyond the last: none.
_FACTORS = np.geomspace(1.0, 16.0, 81)
# Of log-likelihoods: grids of the releases, quadratures.
ROUNDING = 1e-3

Pair = tuple[FloatArray, FloatArray]

# Pairs that are compared one by one, nearest first, of steps and of entries: all of 32.
_PAIRS = 496
# Lags whose pairs are compared together.
_LAGS = 256
# Trials whose uniform bound is wider than this show nothing.
_WIDEST = 0.25


@dataclass(frozen=True)
class LikelihoodReport(Findings):
    """Outcome of a likelihood audit; computed from raw data, not private.

    Attributes
    ----------
    epsilon, delta : float
        The claim, a point of the curve that was put to the test as a whole.
    trials : int
        Runs on each of the two streams.
    confidence : float
        Probability of not reporting a violation where there is none.
    findings : tuple of str
        Violations, in words; empty if none was found.
    curve : tuple of (float, float, float, float)
        Epsilon, measured delta (of the worse direction), what it is at least, claimed delta.
    largest_loss : float
        Largest privacy loss of any run.
    detectable : float
        Smallest factor such that losses this many times as large as the measured ones would have
        been reported; infinite: none below 16.
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
        ``Source -> learner``: a new, unstarted learner or mechanism with a known distribution.
        These are all of this library, with Gaussian noise where sums are released; the coupled
        learners in one dimension. It is called for every run: pass `plan` to avoid repeated
        calibration.
    stream, neighbour : array or tuple of arrays
        As for `replay_audit`; they differ in the record of one round, or in rounds that one person
        may have, if the guarantee is for people. Rows of scores of a `NoisyMax`, and queries of an
        `AboveThreshold`, may differ in every round, by no more than was promised.
    trials : int
        Runs on each of the two streams.
    seed : int, default 0
        Seed of the runs.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation where there is none.

    Returns
    -------
    LikelihoodReport

    Raises
    ------
    TypeError
        For a learner whose distribution is not known here, or that is not made again.
    ValueError
        For streams that are not neighbours, too few trials to refute anything, and a learner
        without a privacy guarantee.

    Notes
    -----
    ``2 * trials`` runs in Python; learners on sums also need O(T^2) memory, and detectors
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
    # A third each for curve, identities, and noise (docs/privacy/replay_and_likelihood.md).
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
    # Both streams are played: a curve has two directions, and either may be the worse.
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
    """Return where runs on a stream contradict the declared law of noise, decisions and draws.

    Nothing is said about the claim, so that a few runs do. None: the law is not known.

    Parameters
    ----------
    make_learner, stream, neighbour, trials, seed
        As for `likelihood_audit`.
    error : float
        Probability of a finding where there is nothing to find, at most.

    Returns
    -------
    list of str, or None
        Findings; None if the law of such a learner, or of these streams, is not known.
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
    """Return runs of new learners on one of the scorer's streams, scored.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``.
    template : Learner
        The first learner, with which every new one is compared.
    scorer : Scorer
        Of both streams.
    world : int
        Which stream is played.
    count, root : int
        Number of runs, and the seed that theirs are derived from.
    """
    runs = []
    for i in range(count):
        # No run shares its seed with a run on the other stream, or with the template.
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
        At least 0: excesses are then in [0, 1].
    """
    return -np.expm1(np.minimum(0.0, epsilon - losses))


def _epsilons(guarantee: Guarantee) -> list[float]:
    """Return the epsilons at which the curves are compared."""
    return [guarantee.epsilon * multiple for multiple in _MULTIPLES]


def _lower(losses: FloatArray, epsilon: float, error: float) -> float:
    """Return what delta(epsilon) is at least, for all of `_MULTIPLES` at once, both worlds.

    The larger of a bound that is uniform over all epsilons and one for these alone. The second
    is better where few runs have any excess, for its width shrinks with their variance.
    """
    values = _excesses(losses, epsilon)
    # Two bounds on two streams: a quarter of the error for each.
    uniform = float(values.mean()) - dkw(len(values), error / 4.0)
    single = mean_at_least(values, 1.0, error / 4.0 / len(_MULTIPLES))
    return max(uniform, single, 0.0)


def _curve(
    losses: list[FloatArray], guarantee: Guarantee, error: float
) -> tuple[list[tuple[float, float, float, float]], list[str]]:
    """Return the rows of a report's curve, and where a loss or a point exceeds the claim.

    A pure claim bounds every single loss, so that one run beyond it is enough.

    Parameters
    ----------
    losses : list of two ndarray, shape (trials,)
        Privacy losses of the runs on each stream.
    guarantee : Guarantee
        The claim.
    error : float
        Probability of a finding where there is none, at most.
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
    """Return where a measured curve lies above a claimed one.

    Parameters
    ----------
    curve : iterable of tuple
        Rows of a report: epsilon, measured and least delta, and one number more.
    claim : Claim or Guarantee
        With ``delta_at``.
    word : str
        What the curve is called: claimed or published.
    """
    findings = []
    for epsilon, measured, lower, _ in curve:
        claimed = claim.delta_at(epsilon)
        if lower > claimed + ROUNDING * min(1.0, claim.epsilon) * measured:
            least = bound_text(lower)
            findings.append(f"delta({epsilon:.4g}) is at least {least}, {word} is {claimed:.4g}")
    return findings


def _identities(losses: list[FloatArray], error: float) -> Iterator[str]:
    """Yield where E_P min(q/p, c) + E_Q max(0, 1 - c p/q) = 1 fails: no likelihood ratios.

    For true likelihood ratios the two expectations add up to 1, whatever the laws. So this finds a
    scorer that is wrong about a learner's law before its losses are used.
    """
    # Two directions, the cuts, and two means for each of them.
    each = error / (4.0 * len(_CUTS))
    for direction, (own, other) in enumerate((losses, losses[::-1])):
        for cut in _CUTS:
            # exp overflows at 709.8, and a ratio of e^700 is beyond every cut.
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
    """Return the least factor on all losses that would be reported; inf if none below 16 is."""
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
    """Return how far an empirical distribution may be off anywhere, both sides.

    Dvoretzky, Kiefer and Wolfowitz with Massart's constant: exceeded with probability at most
    `error`.
    """
    return math.sqrt(math.log(2.0 / error) / (2.0 * count))


def fewest_trials(error: float) -> int:
    """Return how many trials make that at most 1/4."""
    return math.ceil(math.log(2.0 / error) / (2.0 * _WIDEST**2))


def deviation(values: FloatArray, top: float, error: float) -> float:
    """Return how far the mean of values in [0, top] may be from its expectation, both sides.

    Empirical Bernstein (Maurer and Pontil, 2009) or Hoeffding, the smaller; exceeded with
    probability at most `error`.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Independent, n at least 2.
    top : float
        Their largest possible value.
    error : float
    """
    # Half of the error for either bound. Bernstein's is one-sided, so that a side has a quarter.
    n, log = len(values), math.log(8.0 / error)
    variance = float(values.var(ddof=1))
    bernstein = math.sqrt(2.0 * variance * log / n) + 7.0 * top * log / (3.0 * (n - 1))
    return min(bernstein, top * math.sqrt(math.log(4.0 / error) / (2.0 * n)))


def mean_at_least(values: FloatArray, top: float, error: float) -> float:
    """Return a lower bound on the expectation of values in [0, top], by the same."""
    # The other side is not used.
    return float(values.mean()) - deviation(values, top, 2.0 * error)


# ---- independent uniforms ------------------------------------------------------------------------

# The differences, and the sums, modulo 1 of pairs of independent uniforms are independent uniforms
# themselves as long as the pairs form no cycle: every pair has a member that the others before it
# do not determine. All pairs of columns at one lag are such a set, and so is a single pair in all
# runs.


def uniform_findings(worlds: list[Scores], error: float, rounding: float) -> Iterator[str]:
    """Yield where something is no sample of independent uniforms.

    Parameters
    ----------
    worlds : list of Scores
        Runs on either stream.
    error : float
        Probability of yielding anything where all is right, at most.
    rounding : float
        Allowance for grids and quadratures.

    Notes
    -----
    Dvoretzky, Kiefer and Wolfowitz's inequality; a fifth of the error each for the law, for
    repetitions at every lag, in every pair of steps and of entries, and for draws. Sorts at most
    2 (256 + 992) samples a stream.
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

    Of Kolmogorov and Smirnov; shape (n,), O(n log n).
    """
    ordered = np.sort(values)
    grid = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(grid[1:] - ordered), np.max(ordered - grid[:-1])))


def _far(world: int, text: str, values: FloatArray, error: float, rounding: float) -> Iterator[str]:
    """Yield a finding if values are too far from uniform to be chance."""
    far = _distance(values.ravel())
    if not far <= dkw(values.size, error) + rounding:
        yield f"world {world}: {text} (distance {far:.3g})"


def _find_repeats(
    world: int, pairs: list[tuple[str, Pair]], error: float, rounding: float
) -> Iterator[str]:
    """Yield the worst of pairs of uniforms that depend on one another, as sums or differences.

    Parameters
    ----------
    world : int
        Whose runs.
    pairs : list of (str, pair of ndarray)
        What a pair is called, and its values in all runs.
    error, rounding : float
        As for `uniform_findings`.
    """
    for sign, how in ((-1.0, ""), (1.0, " with its sign changed")):
        worst, where = 0.0, ""
        for name, (first, second) in pairs:
            values = (first + sign * second).ravel()
            values -= np.floor(values)  # modulo 1, which takes several times as long
            far = _distance(values)
            # Sums and differences of every pair are tested.
            allowed = dkw(values.size, error / (2.0 * len(pairs))) + rounding
            if not far <= allowed and not far <= worst:
                worst, where = far, name
        if where:
            yield f"world {world}: the noise repeats itself{how}, {where} (distance {worst:.3g})"


def _pair_lags(u: FloatArray) -> list[tuple[str, Pair]]:
    """Return all pairs at one lag together, for every lag."""
    lags = range(1, min(u.shape[1], _LAGS + 1))
    return [(f"at a lag of {lag}", (u[:, :-lag], u[:, lag:])) for lag in lags]


def _nearest(what: str, parts: Iterable[FloatArray]) -> list[tuple[str, Pair]]:
    """Return pairs of parts, nearest first, no more than are compared one by one."""
    u = list(parts)
    pairs = ((first, first + lag) for lag in range(1, len(u)) for first in range(len(u) - lag))
    return [
        (f"in {what} {first + 1} and {second + 1}", (u[first], u[second]))
        for first, second in islice(pairs, _PAIRS)
    ]
