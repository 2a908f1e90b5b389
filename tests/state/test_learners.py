"""The table of learners: every line loads, nothing loads by itself, and subclasses inherit."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpoco
from dpoco._families import Vectors, family_of
from dpoco.adapters._linear import LinearModel, LinearProblem
from dpoco.audit import replay_audit, standard_case
from dpoco.audit._family import Family, Scorer
from dpoco.errors import StateError
from dpoco.frank_wolfe import NoisySGD, TreeFrankWolfe
from dpoco.learners import LEARNERS, learner_named, learner_of, own_class
from dpoco.local import DistributionLearner


@pytest.mark.parametrize("listed", LEARNERS, ids=lambda each: each.name)
def test_every_line_names_what_exists(listed):
    kind = listed.load()
    assert own_class(kind) is learner_of(kind) is listed
    if listed.plays in ("reports", "pairs"):
        assert (listed.replay, listed.likelihood) == ("", "")
        assert listed.load_audit("replay") is None
    else:
        assert issubclass(listed.load_audit("replay"), Family)
        assert issubclass(listed.load_audit("likelihood"), Scorer)
    for name in (listed.name, listed.class_name, listed.snake_name, *listed.also):
        assert learner_named(name) is listed
    assert len({each.name for each in LEARNERS}) == len(LEARNERS)


def test_unknown_names_say_what_was_meant():
    with pytest.raises(ValueError, match="did you mean 'noisy-ftrl'"):
        learner_named("noisy-ftlr")
    with pytest.raises(ValueError, match="it is one of: linucb, high-dimensional-bandit"):
        learner_named("zebra", ("arms",))
    with pytest.raises(ValueError, match="noisy-sgd is not for this"):
        learner_named("noisy-sgd", ("arms",))


def test_importing_the_table_imports_no_learner():
    rooms = {f"dpoco.{each.path.split('.')[0]}" for each in LEARNERS}
    code = f"import sys, dpoco.learners; print(sorted({rooms} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


class Mine(TreeFrankWolfe):
    pass


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_a_subclass_has_what_its_base_has():
    assert learner_of(Mine) is learner_of(TreeFrankWolfe)
    assert own_class(Mine) is None  # no state file may name it
    assert learner_of(type("NoisyFTRL", (), {})) is None  # a name is not enough
    case = standard_case("tree-frank-wolfe")
    problem = LinearProblem("squared", "tree_frank_wolfe", 2)
    made = Mine(problem.domain(), problem.family(), horizon=9, budget=None)
    assert isinstance(family_of(made), Vectors)
    told = {"loss": "squared", "learner": "tree_frank_wolfe", "horizon": 9, "budget": None}
    told |= dict.fromkeys(("options", "seed", "participation", "epsilon", "delta"))
    assert LinearModel.of(told, 2, made).learner is made
    with pytest.raises(TypeError, match="must be a PolyhedralFrankWolfe"):
        LinearModel.of({**told, "learner": "polyhedral_frank_wolfe"}, 2, made)

    def make(source):
        return Mine(**{**case.make_learner(source).get_params(), "source": source})

    assert replay_audit(make, case.stream, case.replacements).findings == ()


def test_journals_refuse_what_draws_no_noise():
    server = DistributionLearner.__new__(DistributionLearner)
    for other in (server, NoisySGD.__new__(NoisySGD), object()):
        with pytest.raises(TypeError, match="a journal"):
            family_of(other)


ONLINE = [each for each in LEARNERS if each.plays in ("records", "experts", "arms", "sums")]


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("listed", ONLINE, ids=lambda each: each.name)
def test_arguments_as_other_libraries_give_them(listed, tmp_path):
    clone = pytest.importorskip("sklearn.base").clone
    case, kind = standard_case(listed.name), listed.load()
    learner = kind(**case.make_learner(dpoco.random.Source.seeded(1)).get_params(deep=False))
    given = learner.get_params()
    same = kind(**{**given, "horizon": float(learner.horizon)})
    assert same.get_params() == given
    assert same.parameters == learner.parameters
    copied = clone(learner)
    assert copied is not learner
    assert copied.get_params() == given
    with pytest.raises(TypeError, match=r"source=dpoco\.random\.Source\.seeded"):
        kind(**given, seed=1)
    for horizon in (1.5, float("inf"), float("nan")):
        with pytest.raises((TypeError, ValueError), match="horizon"):
            kind(**{**given, "horizon": horizon})
    learner.save(tmp_path / "state")
    assert dpoco.load(tmp_path / "state", kind).parameters == learner.parameters
    with pytest.raises(StateError, match=f"is of a {listed.class_name}, not of a Mine"):
        dpoco.load(tmp_path / "state", Mine)
