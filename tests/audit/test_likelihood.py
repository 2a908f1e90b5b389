"""Exact privacy losses of whole transcripts: all known laws, and claims that are too strong."""

from __future__ import annotations

import functools
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dpoco
from dpoco.audit import likelihood_audit
from dpoco.audit._likelihood_families import SCORERS
from dpoco.audit._likelihood_selections import selection_law
from dpoco.audit._likelihood_sums import noise_map
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.experts import BatchShare, EpochSelector, PrefixHedge
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.mechanisms import ContinualSum, NoisyMax
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

_spec = importlib.util.spec_from_file_location(
    "likelihood_cases", Path(__file__).parents[1] / "oco" / "likelihood_cases.py"
)
coupled = importlib.util.module_from_spec(_spec)
sys.modules.setdefault("likelihood_cases", coupled)
_spec.loader.exec_module(coupled)

T = 6
GAUSS, PURE = dpoco.Budget(3.0, 1e-2), dpoco.Budget(1.5, 0.0)
G = np.tile([1.0, 0.0], (T, 1))
H = G.copy()
H[2] *= -1.0
SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(T, 3))
SIGNS[0] = [1.0, -1.0, 1.0]
ONES = np.ones(T)
FLIPPED = ONES.copy()
FLIPPED[0] = -1.0
L = np.tile([1.0, 0.0, 0.0, 0.0], (T, 1))
L[1] = [1.0, 1.0, 0.0, 0.0]
M = L.copy()
M[1] = 1.0 - L[1]
SCORES = np.zeros((3, 4))
MOVED = SCORES + np.array([1.0, -1.0, -1.0, -1.0])


def prepared(cls, *arguments, budget, **options):
    """A maker whose calibration and accounting are done once."""

    @functools.cache
    def once():
        return cls(*arguments, budget=budget, **options)

    @functools.cache
    def kind():
        if cls in (ContinualSum, NoisyMax):
            return cls
        accountant = SimpleNamespace(guarantee=lambda *a, **k: once()._guarantee)
        return type(cls.__name__, (cls,), {"_accountant": accountant})

    def make(source):
        return kind()(
            *arguments, budget=None, parameters=once().parameters, source=source, **options
        )

    make.once = once
    return make


def sums(method):
    return prepared(ContinualSum, 2, horizon=T, budget=GAUSS, method=method), G, H, 500


def polyhedral(domain, **options):
    d = domain.dimension
    make = prepared(
        PolyhedralFrankWolfe, domain, SquaredLoss(1.0, 1.0), horizon=T, batch=1,
        budget=dpoco.Budget(3.0, 0.0), **options,
    )  # fmt: skip
    return make, (SIGNS[:, :d], ONES), (SIGNS[:, :d], FLIPPED), 700


def share(noise, batch=2):
    budget = GAUSS if noise == "gaussian" else PURE
    options = {"noise": noise, "batch": batch, "learning_rate": 0.1}
    return prepared(BatchShare, 4, horizon=T + 1, budget=budget, **options), L, M, 700


def maximum(noise):
    return prepared(NoisyMax, 4, horizon=3, budget=PURE, noise=noise), SCORES, MOVED, 600


BALL, SQUARED = LpBall(2, 2.0), SquaredLoss(1.0, 1.0)
LABELS = ONES.copy()
LABELS[3] = -1.0
TREES = {"horizon": T, "budget": GAUSS}
CASES = {
    **{f"ContinualSum, {m}": sums(m) for m in ("blt", "tree", "honaker", "toeplitz")},
    "TreeFrankWolfe": (
        prepared(TreeFrankWolfe, BALL, LinearLoss(1.0), batch=2, **TREES), G, H, 400
    ),
    "TreeFrankWolfe, squared": (
        prepared(TreeFrankWolfe, BALL, SQUARED, **TREES), (G, ONES), (G, LABELS), 800
    ),
    "NoisyFTRL": (prepared(NoisyFTRL, BALL, LinearLoss(1.0), **TREES), G, H, 500),
    "NoisyFTRL, quadratic": (
        prepared(NoisyFTRL, BALL, SQUARED, statistics="quadratic", sum_method="tree", **TREES),
        (G, ONES), (G, LABELS), 800,
    ),
    "PrefixHedge": (prepared(PrefixHedge, 4, horizon=T + 1, budget=GAUSS), L, M, 500),
    **{f"NoisyMax, {noise}": maximum(noise) for noise in ("exponential", "gumbel", "laplace")},
    "PolyhedralFrankWolfe": polyhedral(LpBall(2, 1.0)),
    "PolyhedralFrankWolfe, box": polyhedral(Box([-1.0, 0.0], [1.0, 1.0]), selector="laplace"),
    "PolyhedralFrankWolfe, simplex": polyhedral(Simplex(3), weights="paper"),
    "PolyhedralFrankWolfe, points": polyhedral(VertexSet([[0.0, -1], [1, -0.5], [-1, 1]])),
    **{f"BatchShare, {noise}": share(noise) for noise in ("knorm", "gaussian", "laplace")},
    "BatchShare, response": share("coordinate_rr", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = CASES[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert not report.violated, str(report)
    assert report.detectable < (8.0 if "Frank" in name or "quadratic" in name else 2.2)
    assert report.passed == (report.detectable <= 4.0)
    assert ("no power" in str(report)) != report.passed
    assert "would have been reported" in str(report)


# ---- the coupled learners ------------------------------------------------------------------------

COUPLED = [
    "weights, density ratio", "weights, dartboard", "weights, anchored", "weights, scheduled",
    "leader, density ratio", "leader, logistic", "leader, logistic, scheduled",
]  # fmt: skip


@functools.cache
def coupled_case(name):
    case = coupled.CASES[name]()
    own = case.learner
    streams = [
        each.reshape(-1, 1).astype(float)
        if each.ndim == 1
        else (each[:, :1].astype(float), each[:, 1].astype(float))
        for each in case.streams
    ]
    accountant = SimpleNamespace(guarantee=lambda *a, **k: own.guarantee)
    kind = type(type(own).__name__, (type(own),), {"_accountant": accountant})

    def make(source, **changes):
        p = replace(own.parameters, **changes)
        return kind(own.domain, own.loss, horizon=own.horizon, budget=None, parameters=p,
                    source=source)  # fmt: skip

    return make, streams


@pytest.mark.parametrize("name", COUPLED)
def test_whole_transcripts_of_the_coupled_learners(name):
    make, streams = coupled_case(name)
    report = likelihood_audit(make, *streams, 300)
    assert not report.violated, str(report)
    assert report.detectable < 12.0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("weights, scheduled", {"inverse_temperature": 36.0}),
        ("weights, dartboard", {"inverse_temperature": 4.0}),
        ("leader, density ratio", {"noise_scale": 1.5}),
        ("leader, density ratio", {"forced_switch": 0.9}),
    ],
)
def test_coupled_engines_of_another_law_are_caught(name, changes):
    make, streams = coupled_case(name)

    def liar(source):
        learner = make(source)
        learner._engine = make(source, **changes)._engine
        return learner

    assert likelihood_audit(liar, *streams, 500).violated


# ---- planted: claims and noise -------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in CASES if "squared" not in n and "quadratic" not in n])
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name):
    make, stream, neighbour, trials = CASES[name]
    factor = 10.0 if "Polyhedral" in name else 4.0
    own = make.once()
    promised = strict_of(name, own, factor)

    def liar(source):
        learner = make(source)
        learner._guarantee = promised
        return learner

    report = likelihood_audit(liar, stream, neighbour, trials)
    assert report.violated
    assert not report.passed
    assert "VIOLATED" in str(report)


def strict_of(name, own, factor):
    """The guarantee of the same learner for that much less budget."""
    found = own.guarantee
    delta = found.delta if found.mu is not None else 0.0
    own_budget = dpoco.Budget(found.epsilon / factor, delta)
    arguments = {k: v for k, v in own._arguments.items() if k not in ("budget", "source")}
    if isinstance(own, (PolyhedralFrankWolfe, BatchShare)):
        arguments.pop("parameters")
    return type(own)(**{**arguments, "budget": own_budget}).guarantee


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize(
    "name",
    [
        "ContinualSum, blt", "TreeFrankWolfe, squared", "NoisyFTRL", "PrefixHedge",
        "NoisyMax, gumbel", "NoisyMax, exponential", "PolyhedralFrankWolfe",
        "BatchShare, knorm", "BatchShare, gaussian", "BatchShare, laplace",
    ],
)  # fmt: skip
def test_an_engine_with_noise_of_another_scale_is_caught(name, factor):
    make, stream, neighbour, trials = CASES[name]
    if name.startswith(("NoisyMax", "Polyhedral")):
        factor, trials = (0.2 if factor < 1.0 else 0.1), 1000
    key = "scale" if name.startswith(("NoisyMax", "Polyhedral")) else "noise_scale"

    def liar(source):
        learner = make(source)
        p = learner.parameters
        scaled = replace(p, **{key: factor * getattr(p, key)})
        if name.startswith(("ContinualSum", "NoisyMax")):
            base = ContinualSum if name.startswith("Cont") else NoisyMax
            options = {k: learner._arguments[k] for k in ("dimension", "candidates", "horizon")
                       if k in learner._arguments}  # fmt: skip
            if base is NoisyMax:
                options["noise"] = p.noise
            other = base(**options, budget=None, parameters=scaled, source=Source.seeded(
                int.from_bytes(source._key[:8], "little")))  # fmt: skip
            learner._engine = other._engine
            return learner
        learner._parameters = scaled
        learner._engine = learner._build_engine(
            {**Source.seeded(0)._claim(), "key": source._key, "stream": 1}
        )
        learner._parameters = p
        return learner

    report = likelihood_audit(liar, stream, neighbour, trials)
    assert report.violated, str(report)


def test_noise_that_is_used_again_is_caught():
    class Again(ContinualSum):
        """Gives out differences of the same noise in every round."""

        first = None

        def push(self, value):
            released = super().push(value)
            state = np.frombuffer(self._engine.state(), dtype="<u8")
            total = state[2 : 2 + self.parameters.dimension].view(np.float64)
            if self.first is None:
                self.first = released - total
            return total + self.first

    base = ContinualSum(2, horizon=T, budget=GAUSS, method="toeplitz").parameters
    report = likelihood_audit(
        lambda source: Again(2, horizon=T, budget=None, parameters=base, source=source), G, H, 300
    )
    assert report.violated
    assert any("noise" in text for text in report.findings)

    class Stuck(NoisyMax):
        """Draws every selection from the first one's uniforms."""

        chosen = None

        def select(self, scores):
            fresh = super().select(scores)
            self.chosen = fresh if self.chosen is None else self.chosen
            return self.chosen

    p = NoisyMax(4, horizon=3, budget=PURE).parameters
    report = likelihood_audit(
        lambda source: Stuck(4, horizon=3, budget=None, parameters=p, source=source),
        SCORES, MOVED, 1000,
    )  # fmt: skip
    assert report.violated


# ---- power ---------------------------------------------------------------------------------------


def test_an_audit_without_power_says_so_and_does_not_pass():
    make, stream, _, _ = CASES["ContinualSum, blt"]
    near = stream.copy()
    near[2] *= 0.999
    report = likelihood_audit(make, stream, near, 200)
    assert not report.violated
    assert not report.powerful
    assert not report.passed
    assert "no power" in str(report)
    assert "would not have been reported" in str(report)


# ---- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["blt", "tree", "honaker", "toeplitz"])
def test_noise_maps_have_the_row_norms_of_the_accounting(method):
    from dpoco.accounting.continual_sum import row_norm

    found = np.linalg.norm(noise_map(method, 20, 20), axis=1)
    own = np.array([row_norm(method, t, 20) for t in range(1, 21)])
    np.testing.assert_allclose(found, own, rtol=1e-9)


@pytest.mark.parametrize("noise", ["exponential", "gumbel", "laplace"])
def test_selection_laws_are_those_of_noisy_scores(noise):
    rng = np.random.default_rng(1)
    scores, n = np.array([0.3, 1.0, -0.5]), 200_000
    draws = {
        "exponential": rng.exponential(size=(n, 3)),
        "gumbel": rng.gumbel(size=(n, 3)),
        "laplace": rng.laplace(size=(n, 3)),
    }[noise]
    for m in (2, 3):
        seen = np.bincount((scores[:m] + 0.7 * draws[:, :m]).argmax(axis=1), minlength=m) / n
        law = selection_law(noise, scores[:m], 0.7)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.abs(seen - law).max() < 0.006


# ---- what is refused -----------------------------------------------------------------------------


def test_bad_input_is_refused():
    make, stream, neighbour, _ = CASES["ContinualSum, blt"]
    with pytest.raises(ValueError, match="trials must be at least"):
        likelihood_audit(make, stream, neighbour, 50)
    with pytest.raises(ValueError, match="streams are equal"):
        likelihood_audit(make, stream, stream, 300)
    with pytest.raises(ValueError, match="differ in 6 rounds"):
        likelihood_audit(make, stream, -stream, 300)
    with pytest.raises(ValueError, match="different numbers of rounds"):
        likelihood_audit(make, stream, neighbour[:-1], 300)
    with pytest.raises(ValueError, match="confidence"):
        likelihood_audit(make, stream, neighbour, 300, confidence=1.0)
    single = make(Source.seeded(0))
    with pytest.raises(TypeError, match="new learner"):
        likelihood_audit(lambda source: single, stream, neighbour, 300)
    with pytest.raises(ValueError, match="promises nothing"):
        likelihood_audit(
            lambda source: ContinualSum(2, horizon=T, budget=None, source=source),
            stream, neighbour, 300,
        )  # fmt: skip
    with pytest.raises(ValueError, match="generalized Gaussian"):
        likelihood_audit(
            lambda source: ContinualSum(
                2, horizon=T, budget=GAUSS, norm=4.0, noise="generalized_gaussian", source=source
            ),
            stream, neighbour, 300,
        )  # fmt: skip
    with pytest.raises(TypeError, match="no likelihood of a EpochSelector"):
        likelihood_audit(
            lambda source: EpochSelector(4, horizon=T, budget=PURE, source=source), L, M, 300
        )
    with pytest.raises(ValueError, match="promise"):
        likelihood_audit(CASES["NoisyMax, gumbel"][0], SCORES, SCORES + 2.0, 300)
    assert len(SCORERS) == 9
