"""The independent checker proves what learners state, and nothing stronger."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import pytest

import dpoco
from dpoco import Participation, accounting, experts, mechanisms, oco
from dpoco.domains import Box, LpBall
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.local import BitRandomizer
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.mechanisms.local_report import LocalReport

SOURCE = Path(__file__).parents[2] / "check" / "check.py"
VERTICES, BALL, BOX = LpBall(3, 1.0), LpBall(3, 2.0), Box([-1.0] * 3, [1.0, 2.0, 3.0])
SQUARE, LONG = Box([-1.0] * 2, [1.0] * 2), {"horizon": 10**6}


@pytest.fixture(scope="module")
def checker():
    specification = importlib.util.spec_from_file_location("dpoco_check", SOURCE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def record(kind, *problem, **options):
    """Return a guarantee as JSON has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noise may dominate
        options = {"horizon": 1000, "budget": dpoco.Budget(1.0, 1e-6), **options}
        return json.loads(json.dumps(kind(*problem, **options).guarantee.to_dict()))


def of_person(rounds, separation, kind=PolyhedralFrankWolfe, domain=VERTICES, **options):
    """Return what a guarantee says of all rounds of a person, as JSON has it."""
    single = record(kind, domain, LogisticLoss(1.0), **options)
    guarantee = dpoco.Guarantee.from_dict(single).for_person(rounds, separation)
    return json.loads(json.dumps(guarantee.to_dict()))


def local_reports():
    """Forty reports of 0.3, stated at 1e-6."""
    return accounting.statement.local_guarantee(
        LocalReport(0.3, 40, (BitRandomizer(0.3).law,)), released="reports", delta=1e-6
    ).to_dict()


def declared(sensitivity=1.0, pure=0.3):
    """Return what somebody declares of a Gaussian and a pure mechanism, as JSON has it."""
    bell = dpoco.Guarantee.gaussian(
        sensitivity=sensitivity, noise_scale=4.0, delta=1e-6, horizon=9, releases=3
    )
    sure = dpoco.Guarantee.pure_epsilon(pure, horizon=9)
    return dpoco.Guarantee.composed(bell, sure).to_dict()


STATED = {
    "gaussian": lambda: record(oco.NoisyFTRL, BALL, LogisticLoss(1.0)),
    "a sum in batches for people": lambda: record(
        oco.NoisyFTRL, BALL, LogisticLoss(1.0), batch=5, participation=Participation(4, 15)
    ),
    "a sum without levels for people": lambda: record(
        oco.NoisyFTRL,
        BALL,
        LogisticLoss(1.0),
        sum_method="blt",
        numerics="float",
        participation=Participation(None, 100),
    ),
    "a sum in growing batches of a person": lambda: record(
        oco.NoisyFTRL,
        BALL,
        SquaredLoss(1.0, 1.0),
        statistics="quadratic",
        sum_method="blt",
        batch=5,
        numerics="float",
        participation=Participation(20, 5),
    ),
    "draws and a bit": lambda: record(
        oco.ContinuousMultiplicativeWeights, BALL, LinearLoss(1.0), **LONG, coupling="anchored"
    ),
    "draws and many bits": lambda: record(
        oco.ContinuousMultiplicativeWeights, BALL, LinearLoss(1.0), **LONG, coupling="density_ratio"
    ),
    "tilted minima": lambda: record(
        oco.CoupledRegularizedLeader, BALL, HuberLoss(1.0, 1.0), **LONG
    ),
    "selections": lambda: record(PolyhedralFrankWolfe, BOX, LogisticLoss(1.0)),
    "selections by Laplace noise": lambda: record(
        PolyhedralFrankWolfe, LpBall(3, 1.0), LogisticLoss(1.0), selector="laplace"
    ),
    # Here what ranges say of all coordinates together is less than what rho says of each.
    "few selections in a square": lambda: record(
        PolyhedralFrankWolfe, SQUARE, LogisticLoss(1.0), horizon=50, budget=dpoco.Budget(50.0, 1e-6)
    ),
    "selections in a square by Laplace noise": lambda: record(
        PolyhedralFrankWolfe,
        SQUARE,
        LogisticLoss(1.0),
        selector="laplace",
        budget=dpoco.Budget(8.0, 1e-6),
    ),
    "selections of a person": lambda: of_person(7, 20),
    "selections of a person who is always there": lambda: of_person(None, 2, selector="laplace"),
    "coins of a person": lambda: of_person(10, 3, oco.CoupledRegularizedLeader, BALL, **LONG),
    "coins of a chain": lambda: of_person(
        2, 1, oco.ContinuousMultiplicativeWeights, BALL, **LONG, coupling="anchored"
    ),
    "one of bounded range": lambda: record(experts.EpochSelector, 10, selection="gumbel"),
    "pure": lambda: record(experts.ShiftDetector, 10),
    "many of pure privacy": lambda: record(
        mechanisms.NoisyMax, 5, noise="laplace", horizon=50, sensitivity=1.0
    ),
    "tracker": lambda: record(experts.ObliviousTracker, 10, switches=2),
    "local reports": local_reports,
    "declared": declared,
}


def test_reports_with_a_delta_of_their_own_are_not_proved(checker):
    stated = local_reports()
    stated["profile"]["delta"] = 1e-9
    assert checker.check(stated)[0] == "not proved"


@pytest.mark.parametrize("name", STATED)
def test_a_stated_point_is_proved_and_a_stronger_one_is_not(checker, name):
    guarantee = STATED[name]()
    promised = name in ("declared", "many of pure privacy")
    assert checker.check(guarantee)[0] == ("only if" if promised else "proved")
    for factor in (0.98, 0.5):
        stronger = {**guarantee, "epsilon": float(guarantee["epsilon"]) * factor}
        assert checker.check(stronger)[0] == "not proved"


@pytest.mark.parametrize(
    ("kind", "problem", "options"),
    [
        (experts.ObliviousTracker, (5,), {"horizon": 4, "budget": dpoco.Budget(1.0, 1e-30)}),
        (mechanisms.NoisyMax, (4,), {"sensitivity": 1.0, "budget": dpoco.Budget(1e-8, 1e-30)}),
        (
            PolyhedralFrankWolfe,
            (VERTICES, LogisticLoss(1.0)),
            {"budget": dpoco.Budget(1e-8, 1e-12)},
        ),
    ],
)
def test_small_budgets_are_proved_by_large_orders(checker, kind, problem, options):
    """The best order is about 2 log(1 / delta) / epsilon, or far larger near a pure epsilon."""
    stated = record(kind, *problem, **options)
    assert stated["delta"] > 0.0
    assert checker.check(stated)[0] == ("only if" if kind is mechanisms.NoisyMax else "proved")
    assert checker.check({**stated, "epsilon": 0.9 * stated["epsilon"]})[0] == "not proved"


def test_what_cannot_be_derived_is_never_called_proved(checker):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        open_learner = experts.PrefixHedge(4, horizon=10, budget=None)
    assert checker.check(open_learner.guarantee.to_dict())[0] == "NOT PROTECTED"
    stated = STATED["gaussian"]()
    assert checker.check({**stated, "description": None})[0] == "not covered"
    assert checker.check({**stated, "view": "server"})[0] == "not covered"
    own = stated["description"]
    for other in (
        {**own, "order": 2.5},  # the norm of the summand is 2
        {**own, "grid": own["scale"] / 3.0},
        {**own, "factorisation": {**own["factorisation"], "weights": [3.0] * 5}},
        {"kind": "parts", "how": "instances", "parts": [own], "lemma": "", "forced": None},
        {"kind": "parts", "how": "together", "parts": [], "lemma": "", "forced": None},
    ):
        assert checker.check({**stated, "description": other})[0] == "not covered"


@pytest.mark.parametrize("name", [name for name in STATED if "people" in name])
def test_what_sums_state_follows_from_what_is_described(checker, name):
    """Whatever the record says it is: an unlike pattern, level or weight is found out."""
    guarantee = STATED[name]()
    own = guarantee["description"]
    factor = own["factorisation"]
    heavier = {**factor, "weights": [1.0001 * w for w in factor["weights"]]}
    for wrong in (
        {"mu": 0.9 * guarantee["mu"], "epsilon": 0.9 * guarantee["epsilon"]},
        {"person": [2 * guarantee["person"][0], guarantee["person"][1] // 10 * 5]},
        {"description": {**own, "scale": 0.9 * own["scale"]}},
        {"description": {**own, "factorisation": heavier}},
    ):
        assert checker.check({**guarantee, **wrong})[0] == "not proved"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "dpoco.ledger"}, "not a certificate"),
        ({"version": 3}, "version 3"),
        ({"unknown": 1.0}, "no others"),
        ({"epsilon": "1.0"}, "epsilon cannot be"),
        ({"delta": -1e-6}, "delta cannot be"),
        ({"mu": float("nan")}, "mu cannot be"),
        ({"horizon": True}, "horizon cannot be"),
        ({"change": "add"}, "another change"),
        ({"person": [1, 2, 3], "unit": "one person"}, "a person has rounds"),
        ({"description": {"kind": "gaussian_sum"}}, "has the fields"),
        ({"description": {"kind": "magic"}}, "description cannot be"),
    ],
)
def test_what_is_no_certificate_is_refused_in_a_sentence(checker, changes, what):
    with pytest.raises(checker.MalformedError, match=what):
        checker.check({**STATED["gaussian"](), **changes})


UP = {
    "bound", "bound_l2", "features", "features_l2", "slope", "label", "weight", "lipschitz",
    "width", "curvature", "rounding", "sensitivity", "spread", "span", "weights",
    "inverse_temperature", "learning_rate", "high", "step", "leaf", "diameter_l1", "reports",
    "rounds", "exponent", "share_rate", "factor_floor", "later_bits", "shift", "b", "count",
    "rank", "terms", "range", "sensitivity_ratio", "experts", "alarms",
}  # fmt: skip
DOWN = {
    "epsilon", "delta", "mu", "rho", "truncation_mass", "column_norm", "scale",
    "threshold_scale", "query_scale", "noise", "forced", "regularization", "low",
}  # fmt: skip
ROOM = {  # calibrated to less than is stated, or rounded up to whole blocks: more is true, too
    "draws and a bit": ("delta", "rounds"),
    "draws and many bits": ("delta",),
    "selections by Laplace noise": ("epsilon", "delta"),
    # Orders of divergences are searched more finely here than they were computed at.
    "few selections in a square": ("epsilon", "delta"),
    "selections in a square by Laplace noise": ("epsilon", "delta"),
    "selections of a person": ("epsilon", "delta"),
    "selections of a person who is always there": ("delta",),
    "coins of a chain": ("delta", "rounds", "rank"),
    "one of bounded range": ("delta",),
    "many of pure privacy": ("epsilon",),
    "tracker": ("epsilon", "delta"),
}


def numbers(held, path=()):
    """Yield (path, value) of all numbers that a certificate states or describes."""
    for key, value in held.items() if isinstance(held, dict) else enumerate(held):
        if isinstance(value, (dict, list)) and key not in ("details", "claimed"):
            yield from numbers(value, (*path, key))
        if type(value) in (int, float) and value != 0:
            yield (*path, key), value


def mutants(name):
    """Yield (where, certificate) with one number moved by 1e-9, or 1, to where it says more."""
    certificate = STATED[name]()
    for path, value in numbers(certificate):
        field = next(part for part in reversed(path) if isinstance(part, str))
        sign = (field in UP) - (field in DOWN)
        room = field in ROOM.get(name, ()) and path[0] != "profile"
        tiny = field == "weights" and value < 1e-3  # moves mu by less than the last digits
        argument = path == ("sensitivity",)  # which not every statement has from its description
        if sign == 0 or room or tiny or argument:
            continue
        copy = json.loads(json.dumps(certificate))
        target = copy
        for step in path[:-1]:
            target = target[step]
        by = max(1, value // 10**9) if isinstance(value, int) else value * 1e-9
        target[path[-1]] = value + sign * by
        yield "/".join(map(str, (name, *path))), copy


def survivors(checker, names):
    """Return how many mutants there are, and which were proved."""
    found = {where: checker.check(mutant)[0] for name in names for where, mutant in mutants(name)}
    return len(found), [where for where, result in found.items() if result == "proved"]


def test_a_number_of_a_billionth_more_is_refused(checker):
    count, proved = survivors(checker, ("gaussian", "pure", "draws and a bit", "local reports"))
    assert count >= 36
    assert proved == []


def test_every_number_of_every_kind_is_refused_if_it_says_a_billionth_more(checker):
    """Over a second: some hundred certificates are proved in ball arithmetic, or not."""
    count, proved = survivors(checker, STATED)
    assert count >= 200
    assert proved == []


@pytest.mark.parametrize("factor", [1e-7, 1e-18, 1e-35, 1e-80])
def test_coins_that_hardly_ever_stay_are_proved(checker, factor):
    """Searches of orders take few bits, in which such a chance must not be what is left of 1."""
    from dpoco.privacy.losses.tilted_draws import ReturningDraws

    loss = ReturningDraws(
        forced_switch=0.92, factor_floor=factor, shift=0.0, cap=24, sensitivity_ratio=0.5, b=0.0,
        dimension=3, rank=1, change="replace", rounds=2, together=1, block=1,
    )  # fmt: skip
    stated = {n: checker.arb(v) if type(v) is float else v for n, v in loss.to_dict().items()}
    for epsilon in (10.0, 100.0, 700.0):
        found = min(1.0, float(checker.evaluate(stated).curve(epsilon).mid()))
        kernel = loss.delta(epsilon)  # rounded up
        assert 0.999 * kernel <= found <= kernel or found < kernel < 1e-300


@pytest.mark.parametrize("rule", [None, Participation(4, 20, enforced=False)])
def test_levels_are_rounded_up_as_those_of_draws_are(checker, rule):
    """Of a million entries rounding is a share of mu that shows whether they were."""
    budget = dpoco.Budget(1.0, 1e-6)
    if rule is None:
        plan = accounting.prefix_hedge.calibrate(10**6, horizon=10**5, budget=budget)
        guarantee = accounting.prefix_hedge.guarantee(plan, budget=budget)
    else:
        guarantee = mechanisms.ContinualSum(
            10**6, horizon=100, bound=1.0, budget=budget, participation=rule
        ).guarantee
        assert guarantee.description.factorisation.kind == "banded"
    stated = json.loads(guarantee.to_json())
    assert checker.check(stated)[0] == ("proved" if rule is None else "only if")
    less = {**stated, "mu": stated["mu"] * (1 - 5e-12), "rho": stated["rho"] * (1 - 1e-11)}
    assert checker.check(less)[0] == "not proved"


def test_tails_count(checker):
    guarantee = STATED["a sum without levels for people"]()
    assert guarantee["truncation_mass"] > 0.0
    assert checker.check({**guarantee, "truncation_mass": 0.0})[0] == "not proved"
    loss = checker.make_loss("pure", mass=1e-10, epsilon=checker.arb(1))
    room = checker.arb(1e-9)
    assert checker.proved_delta(loss, 1.0, room) <= room
    assert not checker.proved_delta(loss._replace(mass=checker.arb(1e-9)), 1.0, room) <= room


def test_the_command(checker, tmp_path, capsys):
    good = tmp_path / "good.json"
    good.write_text(json.dumps(STATED["pure"]()))
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps([{**STATED["pure"](), "epsilon": 0.5}]))
    other = tmp_path / "other.json"
    other.write_text('{"kind": "something"}')
    assert checker.main([str(good)]) == 0
    assert checker.main([str(good), str(bad)]) == 1
    assert "certificate 1: not proved: delta" in capsys.readouterr().out
    assert checker.main([str(other)]) == 2
    assert capsys.readouterr().err == f"{other}: not a certificate of dpoco\n"
    assert checker.main([str(tmp_path / "absent.json")]) == 2


def test_nothing_is_not_proved(checker, tmp_path, capsys):
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    assert checker.main([]) == 2
    assert checker.main([str(empty)]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("after", ["\n", "\r", "\x1b[2K\r"])
def test_a_unit_starts_no_line_of_its_own(checker, tmp_path, capsys, after):
    stated = dpoco.Guarantee.gaussian(sensitivity=1.0, noise_scale=4.0, delta=1e-6, horizon=9)
    held = json.loads(stated.to_json())
    path = tmp_path / f"c{after}d.json"
    path.write_text(json.dumps(held | {"unit": f"one household{after}d.json: proved"}))
    assert checker.main([str(path)]) == 5
    shown = capsys.readouterr().out
    assert "one household" in shown
    assert not any(line.startswith("d.json") for line in shown.splitlines())


def test_instances_that_keep_noise_need_a_pure_loss(checker):
    """A curve is proved of a part only if the record's part is fixed before its first step."""
    held = record(experts.ShiftDetector, 10, budget=dpoco.Budget(1.0, 0.0))
    assert checker.check(held)[0] == "proved"
    selection = held["description"]["parts"][0]["parts"][0]
    assert selection["kind"] == "selections"
    selection["law"] = "gumbel"
    kind, why = checker.check(held)
    assert (kind, why) == ("not covered", "such instances")
