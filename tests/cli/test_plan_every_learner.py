"""`dpoco plan` answers for every learner, and its smallest useful horizon is one."""

from __future__ import annotations

import json

import pytest

from dpoco._options import constructor_options
from dpoco.accounting import Guarantee
from dpoco.cli._plan import _PLANNED, _UNITS, example_options, make_command, own_options
from dpoco.cli._plan_report import _smallest_useful
from dpoco.learners import LEARNERS, learner_named

NAMES = [each.name for each in LEARNERS if each.plays in _PLANNED]


def options(name, **changes):
    words = example_options(learner_named(name)).split()
    given = {**dict(zip(words[::2], words[1::2], strict=True)), "--horizon": 20_000, **changes}
    return [word for pair in given.items() for word in pair]


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_has_a_plan(name, answer):
    report = answer("plan", name, *options(name))
    assert report["schema"] == "dpoco.plan/1"
    assert report["learner"] == name
    guarantee = Guarantee.from_dict(report["guarantee"])
    assert guarantee.epsilon <= 1.0 + 1e-9
    regret = report["regret"]
    if learner_named(name).plays == "batch" or name == "residual-phases":  # of it nothing is proved
        assert regret["kind"] is None
    else:
        assert regret["kind"] in ("proven", "predicted")
        assert regret["share"] > 0.0
    if learner_named(name).plays in ("records", "surface", "experts", "arms") and name != "ctrl":
        assert report["memory"]["state_bytes"] > 500


@pytest.mark.parametrize("name", ["noisy-ftrl", "prefix-hedge", "batch-share", "lipschitz"])
def test_the_useful_horizon_is_the_smallest(invoke, name):
    def share(horizon):
        text = invoke("plan", name, *options(name, **{"--horizon": horizon}), "--json").stdout
        return json.loads(text)

    found = share(20_000)["useful"]["horizon"]
    assert share(found)["regret"]["share"] <= 0.1
    assert share(int(found / 1.06))["regret"]["share"] > 0.1


@pytest.mark.parametrize("known", [10, 1000, 10**6])
@pytest.mark.parametrize("power", [0.3, 0.5, 1.0])
def test_the_search_finds_powers(known, power):
    def share(rounds):
        return 3.0 * rounds**-power

    exact = 30.0 ** (1.0 / power)
    found = _smallest_useful(share, 0.1, (known, share(known)))
    assert exact * 0.99 <= found <= 1.06 * exact


def test_the_search_gives_up():
    assert _smallest_useful(lambda rounds: 2.0, 0.1, (100, 2.0)) is None
    assert _smallest_useful(lambda rounds: 0.01, 0.1, (100, 0.01)) == 1


def test_what_was_probably_meant(capfd):
    from dpoco.cli import main

    for arguments, meant in (
        (["plan", "noisy-ftlr"], "noisy-ftrl"),
        (["pln"], "plan"),
        (["run", "--learner", "noisy-ftlr"], "noisy-ftrl"),
        (["run", "phising"], "phishing"),
        (["datasets", "shutle"], "shuttle"),
        (["run", "--epsilom", "1"], "--epsilon"),
    ):
        assert main(arguments) == 2
        err = capfd.readouterr().err
        assert meant in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_the_constructor_is_one_of_the_plan(name):
    """Its default is the constructor's, its help that of the table: added there, it is here."""
    entry = learner_named(name)
    flags = {each.name: each for each in make_command(entry).params}
    table = constructor_options(entry.load())
    own = list(own_options(entry))
    assert own or entry.plays in ("reports", "batch")
    for option in own:
        assert table[option].sentence in flags[option].help
        assert all(word in flags[option].help for word in table[option].choices)
        if option != "expected_shifts":  # the number of switches that commands have: 0
            assert flags[option].default == _UNITS.get(option, table[option].default)
    for option in {"relation", "batch", "numerics"} & table.keys():
        assert option in own


def test_an_option_of_the_constructor_reaches_the_plan(invoke, answer):
    given = ("--statistics", "gradient", "--step-size", "0.25", "--batch", "3")
    found = answer("plan", "noisy-ftrl", *options("noisy-ftrl"), *given)
    assert found["problem"]["step_size"] == found["parameters"]["tuning"]["step_size"] == 0.25
    assert found["parameters"]["mechanism"]["batch"] == 3
    predicted = invoke(
        "plan", "noisy-ftrl", *options("noisy-ftrl"), "--step-size", "predicted", "--json"
    )
    assert json.loads(predicted.stdout)["problem"]["step_size"] == "predicted"
