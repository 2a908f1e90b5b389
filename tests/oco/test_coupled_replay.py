"""The coupled learners on one random tape and two neighbouring streams: what may depend on what."""

from __future__ import annotations

import numpy as np
import pytest
from tests.probes import probes

T = 24
PROBLEMS = [
    "weights density_ratio ball linear",
    "weights density_ratio box linear",
    "weights dartboard box logistic",
    "weights dartboard simplex linear",
    "weights dartboard ball quadratic",
    "weights anchored ball huber",
    "weights anchored box linear",
    "weights scheduled l3 squared",
    "weights scheduled simplex linear",
    "weights dartboard ball custom",
    "leader density_ratio ball linear",
    "leader density_ratio box logistic",
    "leader density_ratio simplex squared",
    "leader density_ratio l3 quadratic",
    "leader density_ratio ball custom",
    "leader scheduled ball huber",
    "leader scheduled simplex linear",
]


def neighbour(coupled, name, stream, index, nasty, relation):
    """The same stream but for one record."""
    other = coupled.stream(name, T)
    assert all(a.shape == b.shape for a, b in zip(stream.data, other.data, strict=True) if
               isinstance(a, np.ndarray))  # fmt: skip
    if other.kind == "custom":
        far = {"replace": -3.0 * other.data[0][index].v, "zero_out": np.zeros(3)}[relation]
        other.data[0][index] = coupled.softplus(far, 0.0)
    else:
        for part in other.data:
            part[index] = nasty if relation == "replace" else 0.0
    return other


class Played:
    """A run round by round: what was decided, consumed and computed."""

    def __init__(self, learner, stream):
        engine = learner._engine
        factor = getattr(engine, "nonprivate_log_factor", None) or engine.nonprivate_log_ratio
        self.decisions, self.switches, self.drawn, self.factors, self.points = [], [], [], [], []
        for t in range(T):
            self.points.append(engine.nonprivate_point())
            self.decisions.append(learner.decide())
            self.drawn.append(np.array(engine.variates_drawn()))
            stream.observe(learner, t)
            self.switches.append(engine.switches)
            self.factors.append(factor())
        self.drawn.append(np.array(engine.variates_drawn()))
        self.moved = np.diff([0, *self.switches]).astype(bool)


@pytest.mark.parametrize("name", [n for n in PROBLEMS if n.split()[1] in ("dartboard", "anchored")])
def test_later_factors_do_not_know_the_changed_record(coupled, name):
    """Given the same released points, bits after the changed round have the same law."""
    own = {"block": T - 1}  # one decision at the very end: the point is kept
    stream = coupled.stream(name, T)
    base = Played(coupled.make(name, **own), stream)
    for index, nasty in ((0, 1e300), (3, -50.0)):
        other = neighbour(coupled, name, stream, index, nasty, "replace")
        factors = Played(coupled.make(name, **own), other).factors
        assert factors[index] != base.factors[index]
        assert factors[index + 1 : T - 2] == base.factors[index + 1 : T - 2]


# ---- the shift of later bits ---------------------------------------------------------------------


def _shifts(coupled, name, streams, **own):
    """Largest change of a later round's log factor (or ratio) at the same point."""
    own = {"block": T - 1, "clip_high": 9.0, "clip_low": 9.0, **own}
    runs = []
    for data in streams:
        stream = coupled.stream(name, T)
        stream.data = data
        runs.append(Played(coupled.make(name, **own), stream))
    first, second = runs
    kept = T - 1  # rounds until the first decision
    assert np.array_equal(first.points[:kept], second.points[:kept])
    return float(np.abs(np.subtract(first.factors, second.factors))[1:kept].max())


def _declared_shift(coupled, name, **own):
    return coupled.make(name, block=1, **own).guarantee.details["later_bit_shift"]


def _aligned(relation, d=3):
    """The worst case: the first loss turned round or emptied, all others along it."""
    rows = np.tile(np.eye(d)[0], (T, 1))
    other = rows.copy()
    other[0] *= -1.0 if relation == "replace" else 0.0
    return (rows,), (other,)


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize(
    ("name", "own"),
    [
        (
            "weights density_ratio ball linear",
            {"inverse_temperature": 200.0, "regularization": 80.0},
        ),
        (
            "weights density_ratio box linear",
            {"inverse_temperature": 200.0, "regularization": 80.0},
        ),
        ("leader density_ratio ball linear", {}),
        ("leader density_ratio box linear", {}),
        ("leader density_ratio simplex linear", {}),
    ],
)
def test_the_declared_shift_is_attained_by_linear_losses(coupled, name, own, relation):
    """On the box gradients are bounded in l_1, on the simplex coordinate by coordinate."""
    declared = _declared_shift(coupled, name, relation=relation, **own)
    streams = _aligned(relation)
    if "simplex" in name:  # the longest admissible gradient within the hyperplane
        corner = np.array([1.0, -1.0, 0.0]) / 1.0
        streams = tuple((np.outer(rows[0][:, 0], corner),) for rows in streams)
    measured = _shifts(coupled, name, streams, relation=relation, **own)
    assert measured <= declared * (1.0 + 1e-9)
    slack = 2.0 / 3.0 if "simplex" in name else 1.0  # |(1, -1, 0)|^2 against d
    assert measured >= 0.999 * slack * declared  # so a smaller constant would be caught


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize(
    "name",
    [
        "weights density_ratio ball linear",
        "weights density_ratio box linear",
        "leader density_ratio ball linear",
        "leader density_ratio box logistic",
        "leader density_ratio ball huber",
        "leader density_ratio simplex squared",
        "leader density_ratio l3 quadratic",
        "leader density_ratio ball custom",
        "leader density_ratio line logistic",
    ],
)
def test_random_neighbours_stay_within_the_declared_shift(coupled, name, relation):
    declared = _declared_shift(coupled, name, relation=relation)
    assert declared > 0.0
    measured = 0.0
    for seed in range(6):
        first = coupled.stream(name, T, seed)
        second = coupled.stream(name, T, seed)
        scale = 10.0 ** (seed % 3)
        if first.kind == "custom":
            far = -first.data[0][0].v * (relation == "replace")
            second.data[0][0] = coupled.softplus(far, 0.0)
        else:
            for stream in (first, second):
                stream.data[0][...] *= scale
            if relation == "zero_out":
                for part in second.data:
                    part[0] = 0.0
            else:
                second.data[first.kind == "quadratic"][0] *= -1.0
        pair = first.data, second.data
        measured = max(measured, _shifts(coupled, name, pair, relation=relation, seed=seed))
    assert measured <= declared * (1.0 + 1e-9)
    assert measured > 0.02 * declared


def test_the_ratio_at_any_point_obeys_the_declared_shift(coupled):
    """Not only at points the learner happens to hold."""
    name = "leader density_ratio box logistic"
    declared = _declared_shift(coupled, name)
    rng = np.random.default_rng(0)
    streams = [coupled.stream(name, T) for _ in range(2)]
    streams[1].data[0][0] *= -1.0
    learners = [coupled.make(name, block=T - 1) for _ in range(2)]
    worst = 0.0
    for t in range(T - 2):
        for learner, stream in zip(learners, streams, strict=True):
            learner.decide()
            stream.observe(learner, t)
        for _ in range(20 * (t > 0)):
            u = rng.uniform(-1.0, 1.0, 3) * [0.999, 0.999, 0.499]
            a, b = (probes.log_ratio_at(each._engine, u) for each in learners)
            worst = max(worst, abs(a - b))
    assert 0.0 < worst <= declared * (1.0 + 1e-9)


# ---- bounds of one loss --------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["ball", "l3", "box", "simplex"])
@pytest.mark.parametrize("family", ["linear", "logistic", "huber", "squared", "quadratic"])
def test_whatever_the_record_its_loss_keeps_the_declared_lipschitz_constant(
    coupled, domain, family
):
    """Differences of a loss, and of two neighbours, between points drawn anywhere in the domain."""
    name = f"weights dartboard {domain} {family}"
    rng = np.random.default_rng(1)
    beta, seeds, rounds = 1e-6, 12, 14
    stream = coupled.stream(name, rounds, seed=2)
    for t in range(rounds):
        for part in stream.data:
            part[t] *= 10.0 ** rng.uniform(-1.0, 30.0 * (t % 2))
    own = {"horizon": 200, "block": 199, "inverse_temperature": beta}
    values, points = np.empty((seeds, rounds)), []
    for seed in range(seeds):
        learner = coupled.make(name, seed=seed, **own)
        points.append(learner._engine.nonprivate_point())
        for t in range(rounds):
            learner.decide()
            stream.observe(learner, t)
            values[seed, t] = -learner._engine.nonprivate_log_factor() / beta  # l(x) - min l
    p = coupled.numbers(learner.plan)
    assert values.min() >= 0.0
    assert values.max() <= p.factor_range * (1.0 + 1e-9)
    used = 0.0
    for i in range(seeds):
        for j in range(i):
            apart = np.linalg.norm(points[i] - points[j])
            change = np.abs(values[i] - values[j]) / apart
            used = max(used, change.max() / p.lipschitz)
            difference = values[i] - values[j]
            pairs = np.abs(difference[:, None] - difference[None, :]).max() / apart
            assert pairs <= 2.0 * p.lipschitz * (1.0 + 1e-6)
    assert used <= 1.0 + 1e-6
    assert used > 0.1
