"""Privacy losses of whole transcripts of the coupled learners: every coin and every draw."""

from __future__ import annotations

import functools

import pytest
from tests.oco import likelihood_cases as coupled
from tests.plans import recoupled

from dpoco.audit import likelihood_audit

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

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
    promise = own.guarantee
    kind = type(type(own).__name__, (type(own),), {"_certify": lambda *a, **k: promise,
                 "_check_described": staticmethod(lambda guarantee, mechanism: None)})  # fmt: skip

    def make(source, **changes):
        p = recoupled(own.plan, **changes)
        return kind(own.domain, own.loss, horizon=own.horizon, budget=None, plan=p,
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
    ],
)
def test_coupled_engines_of_another_law_are_caught(name, changes):
    make, streams = coupled_case(name)

    def liar(source):
        learner = make(source)
        learner._engine = make(source, **changes)._engine
        return learner

    assert likelihood_audit(liar, *streams, 500).violated
