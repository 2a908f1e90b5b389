"""The table of learners: every line loads, nothing loads by itself, and subclasses inherit."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import dpoco
from dpoco.adapters._linear import LinearModel, LinearProblem
from dpoco.audit import replay_audit, standard_case
from dpoco.errors import StateError
from dpoco.frank_wolfe import SufficientStatistics, TreeFrankWolfe
from dpoco.learners import LEARNERS, find_learner, learner_named, own_class
from dpoco.learning.families import Vectors, learner_family
from dpoco.local import DistributionLearner, Hypotheses

BUDGET = dpoco.Budget(1.0, 1e-6)


@pytest.mark.parametrize("listed", LEARNERS, ids=lambda each: each.name)
def test_every_line_names_what_exists(listed):
    kind = listed.load()
    assert own_class(kind) is find_learner(kind) is listed
    for name in (listed.name, listed.class_name, listed.snake_name):
        assert learner_named(name) is listed
    assert len({each.name for each in LEARNERS}) == len(LEARNERS)


def test_unknown_names_say_what_was_meant():
    with pytest.raises(ValueError, match="did you mean 'noisy-ftrl'"):
        learner_named("noisy-ftlr")
    with pytest.raises(ValueError, match="it is one of: residual-phases, linucb, high-dim"):
        learner_named("zebra", ("arms",))
    with pytest.raises(ValueError, match="sufficient-statistics is not for this"):
        learner_named("sufficient-statistics", ("arms",))


def test_importing_the_table_imports_no_learner():
    rooms = {f"dpoco.{each.path.split('.')[0]}" for each in LEARNERS}
    code = f"import sys, dpoco.learners; print(sorted({rooms} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


class Mine(TreeFrankWolfe):
    pass


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_a_subclass_has_what_its_base_has():
    assert find_learner(Mine) is find_learner(TreeFrankWolfe)
    assert own_class(Mine) is None  # no state file may name it
    assert find_learner(type("NoisyFTRL", (), {})) is None  # a name is not enough
    case = standard_case("tree-frank-wolfe")
    problem = LinearProblem("squared", "tree_frank_wolfe", 2)
    made = Mine(problem.domain(), problem.family(), horizon=9, budget=None)
    assert isinstance(learner_family(made), Vectors)
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
    for other in (server, SufficientStatistics.__new__(SufficientStatistics), object()):
        with pytest.raises(TypeError, match="a journal"):
            learner_family(other)


ONLINE = [each for each in LEARNERS if each.plays in ("records", "experts", "arms", "sums")]


STEPPED = [each for each in LEARNERS if each.plays in ("scores", "queries")]


def of_numpy(arguments, real):
    """Return arguments with numbers as NumPy has them."""
    kinds = {int: np.int64, float: real}
    return {
        key: kinds.get(type(value), lambda same: same)(value) for key, value in arguments.items()
    }


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("listed", [*ONLINE, *STEPPED], ids=lambda each: each.name)
def test_numbers_of_numpy_are_stored_as_plain_ones(listed, tmp_path):
    case, kind = standard_case(listed.name), listed.load()
    given = case.make_learner(dpoco.random.Source.seeded(1)).get_params()
    own = kind(**given)
    assert own.plan == kind(**of_numpy(given, np.float64)).plan
    # Numbers in single precision are no floats for Python; without a plan calibration has them too.
    learner = kind(**of_numpy(given | {"plan": None}, np.float32))
    json.dumps(learner.plan.to_dict(), allow_nan=False)
    learner.save(tmp_path / "state")
    assert dpoco.load(tmp_path / "state").plan == learner.plan


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("listed", ONLINE, ids=lambda each: each.name)
def test_arguments_as_other_libraries_give_them(listed, tmp_path):
    clone = pytest.importorskip("sklearn.base").clone
    case, kind = standard_case(listed.name), listed.load()
    learner = kind(**case.make_learner(dpoco.random.Source.seeded(1)).get_params(deep=False))
    given = learner.get_params()
    same = kind(**{**given, "horizon": float(learner.horizon)})
    assert same.get_params() == given
    assert same.plan == learner.plan
    copied = clone(learner)
    assert copied is not learner
    assert copied.get_params() == given
    for seed in ("seed", "random_state"):
        with pytest.raises(TypeError, match=rf"^{seed} is no .*source=dpoco\.random\.Source"):
            kind(**given, **{seed: 1})
    for horizon in (1.5, float("inf"), float("nan")):
        with pytest.raises((TypeError, ValueError), match="horizon"):
            kind(**{**given, "horizon": horizon})
    learner.save(tmp_path / "state")
    assert dpoco.load(tmp_path / "state", kind).plan == learner.plan
    with pytest.raises(StateError, match=f"is of a {listed.class_name}, not of a Mine"):
        dpoco.load(tmp_path / "state", Mine)


def words_of(kind):
    """Yield each argument that may be a word, with the words of its type."""
    for name, hint in get_type_hints(kind.__init__).items():
        for part in (hint, *get_args(hint)):
            if get_origin(part) is Literal:
                yield name, set(get_args(part))


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("listed", LEARNERS, ids=lambda each: each.name)
def test_the_words_of_types_are_those_that_are_accepted(listed):
    kind, given = listed.load(), {}
    if listed.plays in ("reports", "pairs"):
        given = {"hypotheses": Hypotheses([[0.7, 0.3], [0.3, 0.7]])}
        given["epsilon"] = 1.0
    else:
        made = standard_case(listed.name).make_learner(dpoco.random.Source.seeded(1))
        given = {**made._arguments, "plan": None, "budget": made._arguments["budget"] or BUDGET}
    found = dict(words_of(kind))
    assert found or "above" in listed.name
    for name, words in found.items():
        hedge = {"learner": "hedge", "horizon": 9} if name in ("learning_rate", "range") else {}
        if name in ("half_life", "ridge"):
            loss = dpoco.losses.SquaredLoss(1.0, 1.0)
            hedge = {"statistics": "quadratic", "loss": loss, "step_size": None}
        with pytest.raises((ValueError, TypeError)) as error:
            kind(**{**given, **hedge, name: "?"})
        accepted = set()
        for named in re.findall(r"must be one of \[(.*)\]; got '\?'$", str(error.value)):
            accepted = set(re.findall(r"'(\w+)'", named))
            words -= {"coordinate"} - accepted  # of the other kind of learner
            assert accepted <= words
        for word in words - accepted:  # beside numbers, or for None
            assert word in ("auto", "paper", "predicted", "worst_case")
            kind(**{**given, **hedge, name: word})


STUBS = ["", "accounting", "adapters"]


@pytest.mark.parametrize("package", STUBS)
def test_type_checkers_know_the_names_of_packages_that_import_on_first_use(package):
    home = Path(dpoco.__file__).parent / package
    stub = ast.parse((home / "__init__.pyi").read_text())
    known = {each.asname for node in stub.body if isinstance(node, ast.ImportFrom)
             for each in node.names if each.asname == each.name}  # fmt: skip
    module = importlib.import_module(f"dpoco.{package}".rstrip("."))
    public = set(module.__all__) - {"__version__"}
    if package == "accounting":
        public |= {path.stem for path in home.glob("[!_]*.py")}
    assert known == public
    assert all(hasattr(module, name) for name in known - {"river", "sklearn", "torch"})


@pytest.mark.parametrize(
    "changes",
    [{"number": -1}, {"number": "1"}, {"round": 2**70}, {"decision": "x"}, {"_tag": "x"},
     {"context": 3}, {"due": None}],
)  # fmt: skip
def test_a_ticket_made_by_hand_is_a_forged_one(changes):
    learner = dpoco.experts.PrefixHedge(2, horizon=9, budget=None)
    _, ticket = learner.decide(ticket=True)
    with pytest.raises(dpoco.StateError, match="not as it was issued"):
        learner.observe([0.0, 1.0], ticket=dataclasses.replace(ticket, **changes))
    learner.observe([0.0, 1.0], ticket=ticket)
