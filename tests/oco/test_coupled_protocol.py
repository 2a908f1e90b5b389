"""The coupled learners: order of calls, bad input, bounds, custom losses, arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss
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


# -- order of calls -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW + CUSTOM)
def test_decide_and_observe_alternate(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    with pytest.raises(dpoco.RoundOrderError):
        stream.observe(learner, 0)
    first = learner.decide()
    assert learner.decide() is first
    assert first.shape == (learner.domain.dimension,)
    assert first.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1.0
    stream.observe(learner, 0)
    with pytest.raises(dpoco.RoundOrderError):
        stream.observe(learner, 1)
    assert learner.round == 1
    learner.decide()
    stream.observe(learner, 1)
    assert learner.round == 2


def test_run_is_round_by_round(coupled, any_problem):
    """Bit for bit; and decisions stay inside, few, and frozen once the cap is reached."""
    stream = coupled.stream(any_problem, T)
    whole, single, mixed = (coupled.make(any_problem) for _ in range(3))
    want = stream.play(whole, 0, T)
    changes = []
    for t in range(T):
        assert np.array_equal(single.decide(), want[t])
        before = single.switches
        stream.observe(single, t)
        changes.append(single.switches - before)
    assert np.array_equal(single.last_decision, whole.last_decision)
    assert np.array_equal(stream.play(mixed, 0, 7), want[:7])
    mixed.decide()
    assert np.array_equal(stream.play(mixed, 7, T), want[7:])
    for each in (*want, whole.last_decision):
        assert whole.domain.contains(each)
    moved = np.flatnonzero(np.any(np.diff(np.vstack([want, whole.last_decision]), axis=0), axis=1))
    switched = np.flatnonzero(changes)
    assert set(moved) <= set(switched)
    if any_problem.split()[0] == "weights":  # projected leaders may meet in a corner
        assert np.array_equal(moved, switched)
    assert whole.switches == sum(changes) == len(switched)
    assert 1 <= whole.switches <= whole.parameters.max_switches
    assert all(t % 2 == 1 and t < T - 1 for t in switched)
    if any_problem.split()[1] == "scheduled":
        assert whole.switches == 6
        assert switched[-1] == 11


@pytest.mark.parametrize(
    "name",
    [
        "weights density_ratio ball linear",
        "weights scheduled ball huber",
        "leader density_ratio ball linear",
        "leader density_ratio box logistic",
    ],
)
def test_unbounded_decisions(coupled, name):
    """The domain is only what regret is measured against: decisions leave it."""
    changes = {"unbounded": True, "max_switches": T}
    if name.startswith("weights"):
        changes |= {"regularization": 0.5}
    else:
        changes |= {"step_size": 1.0, "barrier_weight": 0.0}
    stream = coupled.stream(name, T)
    for part in stream.data:
        part[...] = np.abs(part)
    whole, single = (coupled.make(name, **changes) for _ in range(2))
    want = stream.play(whole, 0, T)
    for t in range(T):
        assert np.array_equal(single.decide(), want[t])
        stream.observe(single, t)
    assert any(not whole.domain.contains(each) for each in want)
    assert np.isfinite(want).all()
    loaded = type(whole)._from_bytes(whole._to_bytes())
    assert np.array_equal(loaded.last_decision, single.last_decision)


@pytest.mark.parametrize("name", FEW)
def test_the_trace_is_that_of_the_clipped_records(coupled, name):
    stream, learner = coupled.stream(name, T), coupled.make(name)
    trace = learner.run(*stream.data)
    kept = trace.decisions
    for t in (0, 3, 11, T - 1):
        assert trace.losses[t] == pytest.approx(trace.comparator_losses(kept[t])[t], abs=1e-12)
    moves = np.flatnonzero(np.any(np.diff(kept, axis=0), axis=1))
    assert np.array_equal(trace.switches, moves)
    assert trace.switches.size == learner.switches
    short = coupled.make(name)
    with pytest.raises(ValueError, match="record_decisions"):
        _ = short.run(*stream.data, record_decisions=False).decisions
    assert np.array_equal(short.last_decision, learner.last_decision)


@pytest.mark.parametrize("name", FEW + CUSTOM)
@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_horizon_is_a_wall(coupled, name, horizon):
    stream = coupled.stream(name, horizon + 1)
    learner = coupled.make(name, horizon=horizon)
    if stream.kind != "custom":
        with pytest.raises(dpoco.HorizonExceeded):
            learner.run(*stream.data)
    assert learner.round == 0
    stream.play(learner, 0, horizon)
    drawn, final = learner._engine.variates_drawn(), learner.last_decision
    for breach in (learner.decide, lambda: stream.observe(learner, horizon)):
        with pytest.raises(dpoco.HorizonExceeded):
            breach()
    if stream.kind != "custom":
        with pytest.raises(dpoco.HorizonExceeded):
            learner.run(*stream.part(horizon, horizon + 1))
        assert len(learner.run(*stream.part(0, 0))) == 0  # nothing is asked for
    assert learner._engine.variates_drawn() == drawn
    assert np.array_equal(learner.last_decision, final)
    assert learner.round == horizon


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("horizon", [1, 5])
def test_a_single_block_is_never_decided_over(coupled, name, horizon):
    stream = coupled.stream(name, horizon)
    learner = coupled.make(name, horizon=horizon, block=horizon)
    drawn = learner._engine.variates_drawn()
    decisions = stream.play(learner, 0, horizon)
    assert learner.switches == 0
    assert learner._engine.variates_drawn() == drawn
    assert (decisions == learner.last_decision).all()
    assert learner.guarantee.epsilon == 0.0  # nothing released depends on data


@pytest.mark.parametrize(
    "name",
    [
        "weights dartboard line linear",
        "weights density_ratio line linear",
        "leader density_ratio line logistic",
        "leader density_ratio line linear",
    ],
)
def test_one_dimension(coupled, name):
    learner = coupled.make(name)
    decisions = coupled.stream(name, T).play(learner, 0, T)
    assert learner.switches >= 1
    assert np.abs(decisions).max() <= 1.0


@pytest.mark.parametrize("name", FEW)
def test_empty_runs(coupled, name):
    learner = coupled.make(name)
    trace = learner.run(*coupled.stream(name, 3).part(0, 0))
    assert len(trace) == 0
    assert np.isnan(trace.average_loss)
    assert learner.round == 0


@pytest.mark.parametrize("name", FEW)
def test_no_switch_allowed(coupled, name):
    learner, stream = coupled.make(name, max_switches=0), coupled.stream(name, T)
    drawn = learner._engine.variates_drawn()
    assert (stream.play(learner, 0, T) == learner.last_decision).all()
    assert learner.switches == 0
    assert learner._engine.variates_drawn() == drawn
    assert learner.guarantee.epsilon == 0.0


# -- bad input ------------------------------------------------------------------------------------

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


def _texts(error):
    while error is not None:
        yield str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


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
        assert all("123456" not in text for text in _texts(caught.value))
    with pytest.raises(ValueError, match="outside") as caught:
        careful.observe(*(float(x) if x.ndim == 0 else x for x in good))
    assert all("123456" not in text for text in _texts(caught.value))


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
            bad = Broken(stream.data[0][0], gradient=lambda x, fill=fill: np.full(3, fill))
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


# -- custom losses --------------------------------------------------------------------------------


class Broken:
    """A loss whose chosen functions misbehave."""

    def __init__(self, good, **replaced):
        self.good = good
        self.replaced = replaced

    def __getattr__(self, name):
        return self.replaced.get(name) or getattr(self.good, name)


@pytest.mark.parametrize("coupling", ["density_ratio", "scheduled"])
@pytest.mark.parametrize("domain", ["ball", "box", "simplex"])
def test_a_custom_leader_is_the_built_in_one(coupled, domain, coupling):
    name = f"leader {coupling} {domain} logistic"
    built_in = coupled.make(name)
    p, q = built_in.parameters, coupled.domains[domain].dual_exponent
    stretch = 3.0 ** max(0.0, 0.5 - 1.0 / q)  # of the declared norm to the Euclidean one
    loss = CustomLoss(p.lipschitz / stretch, p.smoothness / stretch**2)
    custom = coupled.make(f"leader {coupling} {domain} custom", loss=loss, rank=p.dimension)
    X = np.random.default_rng(3).normal(size=(T, 3))
    X /= np.linalg.norm(X, ord=q, axis=1)[:, None]
    for t in range(T):
        assert np.allclose(custom.decide(), built_in.decide(), atol=1e-7)
        custom.observe(coupled.softplus(X[t], t % 2))
        built_in.observe(X[t], float(t % 2))
        ratios = [each._engine.nonprivate_log_ratio() for each in (custom, built_in)]
        assert ratios[0] == pytest.approx(ratios[1], abs=1e-8)
    assert built_in.switches >= 1


@pytest.mark.parametrize("coupling", ["dartboard", "anchored"])
def test_custom_weights_decide_like_built_in_ones(coupled, coupling):
    width = 5.0 if coupling == "anchored" else 0.0
    own = {"forced_switch": 1e-9, "clip_high": width, "clip_low": width}
    own["inverse_temperature"] = 0.01
    built_in = coupled.make(f"weights {coupling} ball logistic", **own)
    p = built_in.parameters
    if coupling == "dartboard":
        own["factor_range"] = 2.0 * p.factor_range  # a custom loss's minimum is a tangent's
    loss = CustomLoss(p.lipschitz, 0.25)
    custom = coupled.make(f"weights {coupling} ball custom", loss=loss, **own)
    X = np.random.default_rng(3).normal(size=(T, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    compared = 0
    for t in range(T):
        if custom.switches or built_in.switches:
            break
        points = [each._engine.nonprivate_point() for each in (custom, built_in)]
        assert np.array_equal(*points)  # what is released of it has different grids
        custom.decide()
        built_in.decide()
        custom.observe(coupled.softplus(X[t], t % 2))
        built_in.observe(X[t], float(t % 2))
        own, other = (each._engine.nonprivate_log_factor() for each in (custom, built_in))
        if coupling == "dartboard":
            assert own <= other + 1e-12  # a lower bound of the minimum
            assert own >= other - 0.01 * 0.5
        else:
            assert own == pytest.approx(other, abs=1e-6)  # anchors are released points
        compared += 1
    assert compared >= 2


@pytest.mark.parametrize("name", CUSTOM)
def test_constant_offsets_do_not_matter(coupled, name):
    learners = [coupled.make(name) for _ in range(2)]
    stream = coupled.stream(name, T)
    for t, loss in enumerate(stream.data[0]):
        for learner, offset in zip(learners, (0.0, 17.5 + t), strict=True):
            learner.decide()
            learner.observe(coupled.softplus(loss.v, loss.y, offset))
    assert learners[0].switches == learners[1].switches >= 1
    assert np.allclose(learners[0].last_decision, learners[1].last_decision, atol=1e-6)


@pytest.mark.parametrize("mode", ["clip", "raise"])
@pytest.mark.parametrize("name", CUSTOM)
def test_objects_that_are_no_losses_change_nothing(coupled, name, mode):
    learner = coupled.make(name, options={"on_violation": mode})
    stream = coupled.stream(name, T)
    learner.decide()
    drawn = learner._engine.variates_drawn()
    for bad in (np.zeros(3), object(), 3.0, None):
        with pytest.raises(TypeError, match="value, gradient and hessian"):
            learner.observe(bad)
    with pytest.raises(TypeError, match="label"):
        learner.observe(stream.data[0][0], 1.0)
    with pytest.raises(TypeError, match="run"):
        learner.run(np.zeros((2, 3)))
    assert learner.round == 0
    assert learner._engine.variates_drawn() == drawn
    if mode == "clip":  # some of the stream's gradients are longer than the box's dual norm allows
        assert stream.play(learner, 0, T).shape == (T, 3)


def _play_until_error(learner, losses):
    for each in losses:
        learner.decide()
        learner.observe(each)


def _assert_unusable(learner, stream):
    """Nothing goes on; the decision that was already released may be looked at again."""
    released = learner.decide()
    assert learner.decide() is released
    for use in (lambda: learner.last_decision, lambda: stream.observe(learner, 5)):
        with pytest.raises(dpoco.StateError, match="broke"):
            use()


def _fail(x):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("name", CUSTOM)
def test_an_exception_out_of_a_loss_ends_the_learner(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    stream.play(learner, 0, 1)
    bad = Broken(stream.data[0][1], value=_fail, gradient=_fail, hessian=_fail)
    with pytest.raises(ZeroDivisionError, match="mine"):
        _play_until_error(learner, [bad, *stream.data[0][2:]])
    _assert_unusable(learner, stream)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", CUSTOM)
def test_evaluations_that_are_not_finite_count_as_zero(coupled, name, bad):
    stream = coupled.stream(name, T)
    got, want = coupled.make(name), coupled.make(name)
    wild = Broken(
        stream.data[0][1],
        value=lambda x: bad,
        gradient=lambda x: np.full(3, bad),
        hessian=lambda x: np.full((3, 3), bad),
    )
    none = Broken(
        stream.data[0][1],
        value=lambda x: 0.0,
        gradient=lambda x: np.zeros(3),
        hessian=lambda x: np.zeros((3, 3)),
    )
    for t in range(T):
        for learner, special in ((got, wild), (want, none)):
            learner.decide()
            learner.observe(special if t % 3 == 1 else stream.data[0][t])
    assert np.allclose(got.last_decision, want.last_decision, atol=1e-9)
    assert got._engine.variates_drawn() == want._engine.variates_drawn()


@pytest.mark.parametrize("name", CUSTOM)
def test_wrong_shapes_out_of_a_loss_end_the_learner_and_quote_nothing(coupled, name):
    secret = 123456.789
    learner, stream = coupled.make(name), coupled.stream(name, T)
    bad = Broken(stream.data[0][0], value=lambda x: 0.0, gradient=lambda x: np.full(4, secret),
                 hessian=lambda x: np.full((4, 4), secret))  # fmt: skip
    with pytest.raises(ValueError, match=r"gradient|Hessian") as caught:
        _play_until_error(learner, [bad] * T)
    assert all("123456" not in text for text in _texts(caught.value))
    _assert_unusable(learner, stream)


@pytest.mark.parametrize("name", CUSTOM)
def test_text_out_of_a_loss_is_not_quoted(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    bad = Broken(
        stream.data[0][0], value=lambda x: "123456x", gradient=lambda x: ["123456x", 0.0, 0.0]
    )
    with pytest.raises((ValueError, TypeError)) as caught:
        _play_until_error(learner, [bad] * T)
    assert all("123456" not in text for text in _texts(caught.value))


@pytest.mark.parametrize("name", CUSTOM)
def test_a_loss_that_meddles_with_its_learner_is_refused(coupled, name):
    learner, stream = coupled.make(name, block=1), coupled.stream(name, T)

    def meddle(x):
        learner.last_decision  # noqa: B018

    bad = Broken(stream.data[0][0], value=meddle, gradient=meddle)
    with pytest.raises(dpoco.RoundOrderError):
        _play_until_error(learner, [bad] * T)


# -- arguments ------------------------------------------------------------------------------------

BALL = LpBall(3)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    "options",
    [
        {"horizon": 0},
        {"horizon": -5},
        {"horizon": 1.5},
        {"horizon": True},
        {"horizon": 10**13},
        {"budget": (1.0, 1e-5)},
        {"budget": 1.0},
        {"domain": "ball"},
        {"domain": Box([0.0, 0.3], [1.0, 0.3])},
        {"domain": Simplex(1)},
        {"loss": "logistic"},
        {"calibration": "loose"},
        {"coupling": "sticky"},
        {"coupling": "maximal"},
        {"coupling": ["scheduled"]},
        {"block": 0},
        {"block": 21},
        {"block": 1.5},
        {"relation": "add"},
        {"unbounded": 1},
        {"unbounded": True, "loss": SquaredLoss(1.0, 1.0)},
        {"unbounded": True, "loss": QuadraticLoss(1.0, 1.0)},
        {"unbounded": True, "loss": CustomLoss(1.0, 1.0)},
        {"unbounded": True, "domain": Simplex(3)},
        {"max_switches": 3},
        {"max_switches": 0, "budget": None},
        {"max_switches": -1.0, "budget": None},
        {"max_switches": math.nan, "budget": None},
        {"budget": None, "calibration": "paper"},
        {"on_violation": "ignore"},
        {"parameters": {}},
        {"source": np.random.default_rng(0)},
    ],
)
def test_bad_arguments_are_refused_at_construction(kind, options):
    given = {"domain": BALL, "loss": LogisticLoss(1.0), "horizon": 20, "budget": BUDGET, **options}
    with pytest.raises((ValueError, TypeError)):
        kind(given.pop("domain"), given.pop("loss"), **given)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ContinuousMultiplicativeWeights, {"coupling": "density_ratio"}),  # logistic
        (ContinuousMultiplicativeWeights, {"sampler": "magic"}),
        (ContinuousMultiplicativeWeights, {"sampler": "exact", "domain": LpBall(3, 3.0)}),
        (ContinuousMultiplicativeWeights, {"coupling": "dartboard", "unbounded": True}),
        (ContinuousMultiplicativeWeights, {"coupling": "anchored", "unbounded": True}),
        (ContinuousMultiplicativeWeights,
         {"coupling": "density_ratio", "domain": Simplex(3), "loss": LinearLoss(1.0)}),
        (CoupledRegularizedLeader, {"coupling": "dartboard"}),
        (CoupledRegularizedLeader, {"coupling": "anchored"}),
        (CoupledRegularizedLeader, {"domain": LpBall(3, 1.5)}),
        (CoupledRegularizedLeader, {"domain": LpBall(3, 1.0)}),
    ],
)  # fmt: skip
def test_what_a_learner_cannot_do_is_refused(kind, options):
    test_bad_arguments_are_refused_at_construction(kind, options)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    "changes",
    [
        {"forced_switch": 0.0},
        {"forced_switch": 1.1},
        {"forced_switch": math.nan},
        {"block": 0},
        {"block": T + 1},
        {"max_switches": -1},
        {"max_switches": 2.0},
        {"max_switches": None},
        {"clip_high": -0.1},
        {"clip_low": math.inf},
        {"lipschitz": 0.0},
        {"lipschitz": 0.4},
        {"radius": 7.0},
        {"diameter": math.inf},
        {"dimension": 7},
        {"coupling": "maximal"},
        {"calibration": "none"},
        {"relation": "add"},
    ],
)
def test_bad_parameters_are_refused_at_construction(coupled, name, changes):
    with pytest.raises((ValueError, TypeError)):
        coupled.make(name, **changes)


@pytest.mark.parametrize("name", ["weights scheduled ball linear", "leader scheduled ball linear"])
def test_parameters_may_not_exceed_the_budget_beside_them(coupled, name):
    loose = coupled.make(name).guarantee
    fits = dpoco.Budget(loose.epsilon_at(1e-4), 1e-4)
    assert coupled.make(name, budget=fits).guarantee.epsilon == pytest.approx(fits.epsilon)
    with pytest.raises(dpoco.BudgetExceeded, match="over the budget"):
        coupled.make(name, budget=dpoco.Budget(0.9 * fits.epsilon, 1e-4))
    with pytest.raises(dpoco.BudgetExceeded):
        coupled.make(name, budget=fits, private=False, max_switches=None)
    assert coupled.make(name).guarantee.private  # the guarantee says what is


@pytest.mark.parametrize(
    "name", ["weights dartboard ball linear", "leader scheduled ball logistic"]
)
@pytest.mark.parametrize(
    "restated",
    [{"horizon": 30}, {"calibration": "paper"}, {"coupling": "density_ratio"}, {"block": 7},
     {"relation": "zero_out"}, {"unbounded": True}],
)  # fmt: skip
def test_arguments_beside_parameters_must_agree(coupled, name, restated):
    kind, _, domain, loss = coupled.parse(name)
    p = coupled.parameters(name)
    options = {"horizon": T, "budget": None, "parameters": p}
    with pytest.raises(ValueError, match="contradicts"):
        kind(domain, loss, **{**options, **restated})
    same = {each: getattr(p, each) for each in restated}
    assert kind(domain, loss, **{**options, **same}).parameters == p


@pytest.mark.parametrize("kind", CLASSES)
def test_a_limit_of_switches_beside_parameters_is_not_ignored(kind):
    options = {"horizon": 50, "budget": None}
    lazy = kind(BALL, LinearLoss(1.0), max_switches=20, **options)
    again = kind(**lazy.get_params())
    assert again.parameters == lazy.parameters
    for limit in (-5.0, "many", 1.0):
        with pytest.raises((ValueError, TypeError)):
            kind(BALL, LinearLoss(1.0), parameters=lazy.parameters, max_switches=limit, **options)


@pytest.mark.parametrize("kind", CLASSES)
def test_calibrated_learners_meet_their_budget(kind):
    for relation in ("replace", "zero_out"):
        learner = kind(BALL, LogisticLoss(1.0), horizon=2000, budget=BUDGET, relation=relation)
        assert learner.guarantee.epsilon <= BUDGET.epsilon * (1 + 1e-9)
        assert learner.guarantee.delta <= BUDGET.delta
        assert learner.guarantee.relation == relation
        assert learner.parameters.private
    free = kind(BALL, LogisticLoss(1.0), horizon=2000, budget=None)
    assert not free.guarantee.private
    assert free.parameters.coupling == "scheduled"
    assert free.parameters.regret_bound < learner.parameters.regret_bound


@pytest.mark.parametrize("name", FEW)
def test_repr_shows_parameters_and_guarantee_and_no_data(coupled, name):
    learner = coupled.make(name)
    before = repr(learner)
    coupled.stream(name, T).play(learner, 0, T)
    assert repr(learner) == before
    assert f"horizon={T}" in before
    assert "epsilon" in before
