"""Learners whose batches are added up by workers: the same bits, the same guarantee."""

from __future__ import annotations

import itertools
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import dpoco
from dpoco import Budget, Participation
from dpoco.domains import LpBall
from dpoco.errors import HorizonExceeded
from dpoco.losses import HuberLoss, LogisticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL, NoisyNewton
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source
from dpoco.scale import Batches
from dpoco.statistics import Tally

D, T, BUDGET = 3, 4000, Budget(4.0, 1e-4)
BALL = LpBall(D, 2.0)
KINDS = {
    "ridge": (NoisyFTRL, SquaredLoss(1.0, 1.0), {"statistics": "quadratic"}),
    "ridge, equal batches": (
        NoisyFTRL, SquaredLoss(1.0, 1.0), {"statistics": "quadratic", "half_life": 500.0}
    ),
    "ridge that chooses": (
        NoisyFTRL, SquaredLoss(1.0, 1.0), {"statistics": "quadratic", "half_life": "auto"}
    ),
    "ridge in doubles": (
        NoisyFTRL, SquaredLoss(1.0, 1.0), {"statistics": "quadratic", "numerics": "float"}
    ),
    "newton": (NoisyNewton, LogisticLoss(1.0), {}),
    "newton that forgets": (NoisyNewton, LogisticLoss(1.0), {"half_life": 100.0}),
    "newton, huber": (
        NoisyNewton, HuberLoss(1.0, label_bound=2.0, threshold=0.5), {"relation": "zero_out"}
    ),
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def make(kind, horizon=T, **options):
    cls, loss, own = KINDS[kind]
    given = {"horizon": horizon, "budget": BUDGET, "source": Source.seeded(1), **own, **options}
    return cls(BALL, loss, **given)


def records(rounds=T):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(rounds, D)) / math.sqrt(D)  # some are longer than allowed
    rows[7] = np.nan
    return rows, np.clip(rows @ [0.6, -0.3, 0.1], -1.0, 1.0) > 0.0


def play(learner, parts, until=math.inf):
    """Play a learner from tallies of so many workers; decisions after each batch."""
    rows, labels = records()
    batches, found = Batches(learner), []
    partition = pickle.loads(pickle.dumps(batches.partition()))
    while learner.round < min(until, learner.horizon):
        batch = pickle.loads(pickle.dumps(batches.begin()))
        own = np.arange(batch.round, batch.round + batch.rounds)
        tallies = [
            partition.tally(batch, rows[part], labels[part].astype(float))
            for part in (own[k::parts] for k in range(parts))
        ]
        batches.end(reversed(tallies))
        found.append(learner.last_decision)
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_any_partition_gives_the_same_bits(kind):
    alone, together = make(kind), make(kind)
    want, found = play(alone, 1), play(together, 3)
    assert np.array_equal(want, found)
    assert len(np.unique(want, axis=0)) > 5
    assert alone._engine.state() == together._engine.state()
    # And, but for the last digits of sums, what `run` plays.
    whole, (rows, labels) = make(kind), records()
    whole.run(rows, labels.astype(float))
    assert whole.last_decision == pytest.approx(found[-1], abs=1e-9)
    assert whole.round == together.round == T


@pytest.mark.parametrize("kind", ["ridge", "newton"])
def test_threads_may_share_a_partition(kind):
    """Entries of two records that met in one place would add up to more than a record may."""
    batches, rounds = Batches(make(kind)), 40_000
    partition, batch = batches.partition(), replace(batches.begin(), rounds=rounds)
    rows, labels = np.repeat(np.eye(D), rounds // D, axis=0), np.ones(rounds // D)
    parts = [rows[k * len(labels) : (k + 1) * len(labels)] for k in range(D)]
    with ThreadPoolExecutor(D) as pool:
        found = [*pool.map(lambda own: partition.tally(batch, own, labels).cells, parts * 4)]
    alone = [partition.tally(batch, own, labels).cells for own in parts]
    assert np.array_equal(found, alone * 4)


@pytest.mark.parametrize("kind", ["ridge", "ridge that chooses", "newton"])
def test_a_run_may_change_between_machines_and_one(kind, tmp_path):
    learner, (rows, labels) = make(kind), records()
    first = Batches(learner).begin().rounds
    middle = first + first // 2
    learner.run(rows[:middle], labels[:middle].astype(float))
    while True:  # until the batch ends
        try:
            batch = Batches(learner).begin()
        except dpoco.RoundOrderError:
            done = learner.round
            learner.run(rows[done : done + 1], labels[done : done + 1].astype(float))
        else:
            break
    assert (batch.round, batch.decision.tolist()) == (learner.round, learner.last_decision.tolist())
    play(learner, 2, until=learner.round + 1)
    learner.save(tmp_path / "state.dpoco")
    again = dpoco.load(tmp_path / "state.dpoco")
    ours, theirs = play(learner, 2, until=T // 2), play(again, 5, until=T // 2)
    assert np.array_equal(ours, theirs)
    done = learner.round
    for each in (learner, again):
        each.run(rows[done:], labels[done:].astype(float))
    assert np.array_equal(learner.last_decision, again.last_decision)
    with pytest.raises(HorizonExceeded):
        Batches(learner).begin()


def test_the_last_batch_may_be_cut_off():
    learner = make("ridge, equal batches", horizon=1234)
    found = play(learner, 2)
    assert learner.round == 1234
    assert np.array_equal(found[-1], found[-2]) == (1234 % learner.plan.mechanism.batch != 0)


def test_tallies_of_other_batches_or_too_few_are_refused():
    learner, (rows, labels) = make("newton"), records()
    batches = Batches(learner)
    partition, batch = batches.partition(), batches.begin()
    own = rows[: batch.rounds], labels[: batch.rounds].astype(float)
    whole = partition.tally(batch, *own)
    few = partition.tally(batch, own[0][1:], own[1][1:])
    before = learner._engine.state()
    for wrong, message in [
        ([], "no tallies"),
        ([few], "rounds; got"),
        ([whole, whole], "rounds; got"),
        ([Tally(1, whole.cells, whole.records)], "of the batch after 0"),
        ([Tally(0, whole.cells[1:], whole.records)], "of the batch after 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            batches.end(wrong)
    with pytest.raises(ValueError, match="of a whole batch"):
        learner._engine.observe_batch(0, np.zeros(len(whole.cells)), batch.rounds + 1)
    with pytest.raises(dpoco.RoundOrderError):
        learner._engine.observe_batch(1, np.zeros(len(whole.cells)), batch.rounds)
    with pytest.raises(ValueError, match="total"):
        learner._engine.observe_batch(0, np.zeros(2), batch.rounds)
    assert learner._engine.state() == before
    batches.end([whole])
    with pytest.raises(ValueError, match="of the batch after"):
        batches.end([whole])  # once only
    with pytest.raises(ValueError, match="the batch has"):
        partition.tally(batches.begin(), rows, labels.astype(float))


def test_learners_without_such_batches_are_refused():
    for learner, message in [
        (NoisyFTRL(BALL, SquaredLoss(1.0, 1.0), horizon=T, budget=BUDGET), "add up whole batches"),
        (make("newton", participation=Participation(2, 9)), "participation is enforced"),
        (make("ridge", on_violation="raise"), "experiments on one machine"),
    ]:
        with pytest.raises(TypeError, match=message):
            Batches(learner)
    with pytest.raises(TypeError, match="add up whole batches"):
        Batches(3)
    with pytest.raises(ValueError, match="batches of one round"):
        Batches(make("ridge", batch=1, half_life=500.0))
    own = Batches(make("newton", participation=Participation(2, 9, enforced=False)))
    assert own.begin().rounds > 1


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_of_records_is_charged(kind):
    """What one record changes is at most what the guarantee allows a batch in doubles."""
    learner = make(kind)
    partition, total = Batches(learner).partition(), learner.plan.mechanism
    near = Neighbours(learner.guarantee.change)
    length = total.longest_batch
    # A batch as long as the longest, of which one record is another.
    own = type(Batches(learner).begin())(0, length, np.array([0.3, -0.2, 0.9]))
    rows, labels = records(length)
    sums = []
    for first, label in itertools.product(
        ([1.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0] * 3), (1.0, 0.0)
    ):
        rows[0] = first
        sums.append(partition.tally(own, rows, np.r_[label, labels[1:]]).cells * partition._grid)
    pairs = itertools.combinations(sums, 2)
    if near.change == "zero_out":  # against the empty record
        pairs = [(each, sums[-1]) for each in sums]
    moved = max(float(np.linalg.norm(a - b)) for a, b in pairs)
    leaf = math.sqrt(total.summand.size) * partition._grid
    assert moved <= total.summand.movement(near) + leaf
    grown = 5.0 if total.growth else length + 1.0
    charged = total.summand.movement(near) * 2.0**-53 * length * grown
    both = 2.0 * 2.0**-53 * length * total.summand.movement(Neighbours("zero_out"))
    assert leaf + both <= charged
    assert float(np.abs(sums[0]).max()) / partition._grid < 2.0**61
