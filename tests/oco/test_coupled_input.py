"""Bad records: wrong shapes raise and change nothing, bad values are silent."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader

BUDGET = dpoco.Budget(4.0, 1e-4)
T = 24
FEW = [
    "weights density_ratio ball linear",
    "weights dartboard box logistic",
    "weights anchored ball huber",
    "weights scheduled simplex linear",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio l3 quadratic",
    "leader scheduled simplex squared",
]
CUSTOM = [
    "weights dartboard ball custom",
    "weights anchored box custom",
    "leader density_ratio ball custom",
    "leader scheduled simplex custom",
]
CLASSES = [ContinuousMultiplicativeWeights, CoupledRegularizedLeader]


X1 = np.array([0.1, 0.2, 0.3])
GLM = ["weights dartboard box logistic", "leader density_ratio box logistic"]
LINEAR = ["weights density_ratio ball linear", "leader density_ratio ball linear"]
QUADRATIC = ["weights dartboard ball quadratic", "leader density_ratio l3 quadratic"]
WRONG = [
    *((n, (f, y), e) for n in GLM for f, y, e in [
        (np.zeros(4), 0.0, ValueError), (np.zeros((3, 1)), 0.0, ValueError), (3.0, 0.0, ValueError),
        (np.zeros(3, dtype=complex), 0.0, TypeError), (["1", "2", "3"], 0.0, TypeError),
        (X1, None, TypeError), (X1, "1", TypeError), (X1, 1j, TypeError), (X1, [0.0], TypeError),
    ]),
    *((n, (f, y), e) for n in LINEAR for f, y, e in [
        (np.zeros(2), None, ValueError), (np.zeros((1, 3)), None, ValueError), (X1, 1.0, TypeError),
        ([None, 1.0, 2.0], None, TypeError),
    ]),
    *((n, (f, y), e) for n in QUADRATIC for f, y, e in [
        (np.eye(2), X1, ValueError), (np.zeros(9), X1, ValueError), (np.eye(3), X1[:2], ValueError),
        (np.eye(3), None, TypeError), (np.eye(3) * 1j, X1, TypeError), (np.eye(3), "b", TypeError),
        (np.eye(3), 0.5, ValueError),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "record", "error"), WRONG)
def test_wrong_shape_or_dtype_changes_nothing(coupled, name, record, error):
    learner, stream = coupled.make(name), coupled.stream(name, 2)
    learner.decide()
    state = learner._engine.state()
    with pytest.raises(error, match=r"feature|label|gradient|matrix|vector"):
        learner.observe(*record)
    many = tuple(None if part is None else [part] for part in record)
    with pytest.raises((ValueError, TypeError)):
        learner.run(*many)
    assert learner._engine.state() == state
    stream.observe(learner, 0)  # the round is still open


@pytest.mark.parametrize("name", FEW)
def test_bad_runs(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, 5)
    state = learner._engine.state()
    first, *rest = stream.data
    bad = [(first[:, 1:], *rest), (first[0], *rest), (first + 1j, *rest)]
    bad += [(first, rest[0][1:]), (first,), (first, rest[0][:, None])] if rest else [(first, first)]
    for each in bad:
        with pytest.raises((TypeError, ValueError)):
            learner.run(*each)
    assert learner._engine.state() == state


@pytest.mark.parametrize("name", [*GLM, *LINEAR, *QUADRATIC])
def test_messages_never_quote_the_data(coupled, name):
    secret = 123456.789
    stream = coupled.stream(name, 1)
    shapes = [np.shape(part)[1:] for part in stream.data]
    good = [np.full(shape, secret) for shape in shapes]
    learner, careful = coupled.make(name), coupled.make(name, options={"on_violation": "raise"})
    learner.decide()
    careful.decide()
    bad = [(np.full(4, secret), *good[1:]), (good[0] * 1j, *good[1:]), ([[secret], [secret] * 2],)]
    bad += [(str(secret), *good[1:])]
    bad += [(good[0], str(secret)), (good[0], np.full(7, secret))]
    for record in bad:
        with pytest.raises((TypeError, ValueError)) as caught:
            learner.observe(*record)
        assert all("123456" not in text for text in coupled.texts(caught.value))
    with pytest.raises(ValueError, match="outside") as caught:
        careful.observe(*(float(x) if x.ndim == 0 else x for x in good))
    assert all("123456" not in text for text in coupled.texts(caught.value))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FEW)
def test_a_non_finite_record_is_a_zero_loss(coupled, name, bad):
    stream, zero = coupled.stream(name, T), coupled.stream(name, T)
    for t in (0, 4, 5):
        stream.data[t % len(stream.data)][t, ...] = bad
        for part in zero.data:
            part[t] = 0.0
    got, want = coupled.make(name), coupled.make(name)
    decisions = stream.play(got, 0, T)
    assert np.allclose(decisions, zero.play(want, 0, T), atol=1e-9)
    assert got._engine.variates_drawn() == want._engine.variates_drawn()
    assert np.isfinite(decisions).all()
    single = coupled.make(name)
    for t in range(T):
        single.decide()
        stream.observe(single, t)
    assert np.array_equal(single.last_decision, got.last_decision)


def test_huge_records_are_clipped(coupled, any_problem):
    """Not only do they do no harm: they act as the record on the bound does."""
    if any_problem.endswith("custom"):
        return
    huge, clipped = coupled.stream(any_problem, T), coupled.stream(any_problem, T)
    domain, loss = coupled.make(any_problem).domain, coupled.losses[any_problem.split()[3]]
    if huge.kind == "quadratic":
        matrices, vectors = clipped.data
        scaled = matrices * 1e3, vectors * 1e3
        factors = loss.scales(domain, *scaled)
        clipped.data = (factors[:, None, None] * scaled[0], factors[:, None] * scaled[1])
        huge.data = scaled
    else:
        norms = np.linalg.norm(huge.data[0], ord=domain.dual_exponent, axis=1)
        huge.data[0][...] *= (1e200 / norms)[:, None]
        clipped.data[0][...] /= norms[:, None]
    got, want = coupled.make(any_problem), coupled.make(any_problem)
    decisions = huge.play(got, 0, T)
    assert np.allclose(decisions, clipped.play(want, 0, T), atol=1e-8)
    assert got.switches == want.switches
    assert all(domain.contains(each) for each in decisions)


@pytest.mark.parametrize("name", QUADRATIC)
@pytest.mark.parametrize("scale", [1e120, 1e300])
def test_huge_quadratic_losses_are_silent(coupled, name, scale):
    stream = coupled.stream(name, T)
    for part in stream.data:
        part[::3] *= scale
    learner = coupled.make(name)
    trace = learner.run(*stream.data)
    assert np.isfinite(trace.losses).all()
    assert all(learner.domain.contains(each) for each in trace.decisions)
    assert np.isfinite(trace.comparator_losses(learner.domain.center)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", GLM)
def test_values_out_of_range_are_silent_zero_records(coupled, name):
    want = coupled.make(name, forced_switch=0.999, block=1)
    want.decide()
    want.observe([0.0, 0.0, 0.0], 0.0)
    for features, label in [
        ([10**400, 0, 0], 0.0),
        ([0.1, 0.2, 0.3], -(10**400)),
        (np.array([np.longdouble("1e4000"), 0, 0]), 0.0),
        ([0.1, 0.2, 0.3], np.longdouble("1e4000")),
    ]:
        learner = coupled.make(name, forced_switch=0.999, block=1)
        learner.decide()
        learner.observe(features, label)
        assert np.array_equal(learner.last_decision, want.last_decision)


@pytest.mark.parametrize("name", [*GLM, *LINEAR, *QUADRATIC, *CUSTOM])
def test_raise_mode_refuses_before_anything_changes(coupled, name):
    learner = coupled.make(name, options={"on_violation": "raise"})
    stream = coupled.stream(name, 3)
    drawn = learner._engine.variates_drawn()
    learner.decide()
    if stream.kind == "custom":
        for fill in (9.0, np.nan, -np.inf):
            bad = coupled.broken(stream.data[0][0], gradient=lambda x, fill=fill: np.full(3, fill))
            with pytest.raises(ValueError, match="outside the declared bounds"):
                learner.observe(bad)
        good = (coupled.softplus([0.5, 0.0, 0.0], 0.0),)
    else:
        good = tuple(np.zeros_like(part[0]) for part in stream.data)
        if len(good) == 2 and good[1].ndim == 0:
            good = (good[0], 0.0)
        for fill in (50.0, np.nan, np.inf):
            bad = (np.full_like(good[0], fill), *good[1:])
            with pytest.raises(ValueError, match="outside the declared bounds"):
                learner.observe(*bad)
            both = [np.array([g, b]) for g, b in zip(good, bad, strict=True)]
            with pytest.raises(ValueError, match="record 1 "):
                learner.run(*both)
    assert learner.round == 0
    assert learner._engine.variates_drawn() == drawn
    learner.observe(*good)
    assert learner.round == 1
