"""Loss objects of the user: values, exceptions and nonsense."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oco.coupled_problems import CUSTOM

import dpoco
from dpoco.losses import CustomLoss

T = 24


@pytest.mark.parametrize("coupling", ["density_ratio", "scheduled"])
@pytest.mark.parametrize("domain", ["ball", "box", "simplex"])
def test_a_custom_leader_is_the_built_in_one(coupled, domain, coupling):
    name = f"leader {coupling} {domain} logistic"
    built_in = coupled.make(name)
    p, q = coupled.numbers(built_in.plan), coupled.domains[domain].dual_exponent
    stretch = 3.0 ** max(0.0, 0.5 - 1.0 / q)  # of the declared norm to the Euclidean one
    loss = CustomLoss(p.lipschitz / stretch, p.smoothness / stretch**2)
    custom = coupled.make(f"leader {coupling} {domain} custom", loss=loss)
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
    p = coupled.numbers(built_in.plan)
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
        with pytest.raises(TypeError, match="a custom loss must have methods value"):
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
        with pytest.raises(dpoco.StateError, match="failed midway"):
            use()


def _fail(x):
    raise ZeroDivisionError("mine")


@pytest.mark.parametrize("name", CUSTOM)
def test_an_exception_out_of_a_loss_ends_the_learner(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    stream.play(learner, 0, 1)
    bad = coupled.broken(stream.data[0][1], value=_fail, gradient=_fail, hessian=_fail)
    with pytest.raises(ZeroDivisionError, match="mine"):
        _play_until_error(learner, [bad, *stream.data[0][2:]])
    _assert_unusable(learner, stream)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", CUSTOM)
def test_evaluations_that_are_not_finite_count_as_zero(coupled, name, bad):
    stream = coupled.stream(name, T)
    got, want = coupled.make(name), coupled.make(name)
    wild = coupled.broken(
        stream.data[0][1],
        value=lambda x: bad,
        gradient=lambda x: np.full(3, bad),
        hessian=lambda x: np.full((3, 3), bad),
    )
    none = coupled.broken(
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
    bad = coupled.broken(
        stream.data[0][0],
        value=lambda x: 0.0,
        gradient=lambda x: np.full(4, secret),
        hessian=lambda x: np.full((4, 4), secret),
    )
    with pytest.raises(ValueError, match=r"gradient|Hessian") as caught:
        _play_until_error(learner, [bad] * T)
    assert all("123456" not in text for text in coupled.texts(caught.value))
    _assert_unusable(learner, stream)


@pytest.mark.parametrize("name", CUSTOM)
def test_text_out_of_a_loss_is_not_quoted(coupled, name):
    learner, stream = coupled.make(name), coupled.stream(name, T)
    bad = coupled.broken(
        stream.data[0][0], value=lambda x: "123456x", gradient=lambda x: ["123456x", 0.0, 0.0]
    )
    with pytest.raises((ValueError, TypeError)) as caught:
        _play_until_error(learner, [bad] * T)
    assert all("123456" not in text for text in coupled.texts(caught.value))


@pytest.mark.parametrize("name", CUSTOM)
def test_a_loss_that_meddles_with_its_learner_is_refused(coupled, name):
    learner, stream = coupled.make(name, block=1), coupled.stream(name, T)

    def meddle(x):
        learner.last_decision  # noqa: B018

    bad = coupled.broken(stream.data[0][0], value=meddle, gradient=meddle)
    with pytest.raises(dpoco.RoundOrderError):
        _play_until_error(learner, [bad] * T)
