"""Attacks on certificates, each by hand: neither verifier lets a reader believe what is not so."""

from __future__ import annotations

import contextlib
import json
import math

import pytest
from tests.issued import SENTINEL, certificates, read_by_checker
from typer.testing import CliRunner

import dpoco
from dpoco import Budget, Guarantee
from dpoco.accounting import Ledger, explain
from dpoco.accounting.explanation import verdict
from dpoco.cli import _verify as verifying
from dpoco.cli._app import app
from dpoco.errors import StateError

ACCEPTED = ("verified", "only if")


def record(name, **edits):
    return json.loads(certificates()[name].to_json()) | edits


def refused(text):
    """Whether both verifiers refuse a text."""
    with pytest.raises(StateError):
        Guarantee.from_json(text)
    return read_by_checker(text)[0] not in ACCEPTED


def written(path, held):
    path.write_text(held if isinstance(held, str) else json.dumps(held))
    return path


# -- what is void, or promised ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hedge, seeded", "maximum, seeded", "hedge, open"])
def test_void_is_never_verified(invoke, tmp_path, name):
    path = written(tmp_path / "c.json", record(name))
    for options in ((), ("--independent",)):
        shown = invoke("verify", *options, path, code=6).stdout
        assert shown.splitlines()[0].startswith(f"{path}: NOT PROTECTED: ")
    rows = json.loads(invoke("verify", "--json", path, code=6).stdout)["files"]
    assert rows[0]["verdict"] == "not protected"
    assert invoke("explain", path).stdout.startswith("NOT PROTECTED: ")
    one = certificates()[name]
    assert str(one).startswith("NOT PROTECTED: ")
    assert repr(one).startswith("<Guarantee: NOT PROTECTED")


@pytest.mark.parametrize(
    "edits",
    [
        {"certified": True},
        {"seeded": False},
        {"conditions": []},
        {"seeded": False, "certified": True},
        {"certified": True, "conditions": []},
        {"seeded": False, "conditions": []},
    ],
)
def test_no_edit_of_one_or_two_fields_makes_seeded_noise_secret(tmp_path, edits):
    text = json.dumps(record("hedge, seeded", **edits))
    assert read_by_checker(text)[0] not in ACCEPTED or edits == {
        "seeded": False, "conditions": []
    }  # fmt: skip
    with contextlib.suppress(StateError):
        assert verdict(Guarantee.from_json(text)).kind == "not protected"
    old = record("hedge, seeded")
    del old["seeded"]  # as earlier versions wrote it
    assert verdict(Guarantee.from_dict(old)).kind == "not protected"
    assert read_by_checker(json.dumps(old))[0] == "NOT PROTECTED"


@pytest.mark.parametrize(
    "name", ["declared", "composed", "maximum", "threshold", "net, promised", "hedge, claimed"]
)
def test_what_is_promised_holds_only_if(invoke, tmp_path, name):
    path, one = written(tmp_path / "c.json", record(name)), certificates()[name]
    for options in ((), ("--independent",)):
        assert f"{path}: only if " in invoke("verify", *options, path, code=5).stdout.split("\n")[0]
    assert invoke("explain", path).stdout.startswith("only if ")
    assert repr(one).startswith("<Guarantee: only if ")
    assert not one.certified
    with pytest.raises(StateError):
        Guarantee.from_dict(record(name, certified=True))
    assert read_by_checker(json.dumps(record(name, certified=True)))[0] == "not proved"


def test_codes_of_several_files_are_those_of_the_worst(invoke, tmp_path):
    names = {"hedge": 0, "declared": 5, "hedge, seeded": 6}
    paths = {n: written(tmp_path / f"{code}.json", record(n)) for n, code in names.items()}
    for name, code in names.items():
        invoke("verify", paths[name], code=code)
    invoke("verify", *paths.values(), code=6)
    invoke("verify", paths["hedge"], paths["declared"], code=5)
    wrong = written(tmp_path / "wrong.json", record("hedge", epsilon=0.5))
    invoke("verify", wrong, *paths.values(), code=1)
    invoke("verify", written(tmp_path / "none.json", "{}"), *paths.values(), code=2)


# -- facts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hedge", "vertices", "batches", "fit", "maximum", "report"])
def test_the_unit_is_that_of_the_mechanism(name):
    """And a ledger of the other unit does not charge it."""
    wide = "all rounds of one user"
    assert refused(json.dumps(record(name, unit=wide)))
    ledger = Ledger(Budget(9.0, 1e-4), view=certificates()[name].view)
    ledger.charge(certificates()[name], "a")
    stored = json.loads(ledger.to_json())
    stored["unit"] = stored["entries"][0]["unit"] = wide
    stored["entries"][0]["guarantee"]["unit"] = wide
    with pytest.raises(StateError):
        Ledger.from_dict(stored)


def test_a_caller_may_name_a_unit_which_stays_the_callers_word(invoke, tmp_path):
    own = Guarantee.gaussian(
        sensitivity=1.0, noise_scale=8.0, delta=1e-6, horizon=9, unit="one household"
    )
    path = written(tmp_path / "c.json", own.to_json())
    first = invoke("verify", path, code=5).stdout.splitlines()[0]
    assert "for one household (stated by the issuer, not checked)" in first
    assert "stated by the issuer" in invoke("verify", "--independent", path, code=5).stdout


@pytest.mark.parametrize("edit", [[], "first", "last", "words"])
@pytest.mark.parametrize("name", ["hedge", "linucb", "ftrl of people", "declared", "reports"])
def test_conditions_with_legal_weight_cannot_be_left_out(invoke, tmp_path, name, edit):
    one = certificates()[name]
    listed = list(one.conditions)
    listed = {"first": listed[1:], "last": listed[:-1]}.get(edit, []) if edit else []
    if edit == "words":
        listed = [f"{SENTINEL} {text}" for text in one.conditions]
    path = written(tmp_path / "c.json", record(name, conditions=listed))
    assert one.derived
    if set(one.derived) <= set(listed):  # what is left out is the issuer's own
        shown = invoke("verify", path).stdout
        derived, _ = shown.split("Stated by the issuer, not checked:")
        assert all(f"- {text}\n" in derived for text in one.derived)
    else:
        assert "refuted" in invoke("verify", path, code=1).stdout


@pytest.mark.parametrize("name", ["hedge", "linucb", "declared", "reports"])
def test_conditions_of_an_issuer_are_labelled_as_such(invoke, tmp_path, name):
    one = certificates()[name]
    path = written(tmp_path / "c.json", record(name, conditions=[*one.conditions, SENTINEL]))
    shown = invoke("verify", path, code=5 if name == "declared" else 0).stdout
    derived, said = shown.split("Stated by the issuer, not checked:")
    assert SENTINEL not in derived
    assert SENTINEL in said


@pytest.mark.parametrize(
    "name", ["vertices", "maximum", "epochs", "leader", "ftrl, doubles", "arms"]
)
def test_doubles_are_no_lattice(name):
    assert refused(json.dumps(record(name, numerics="lattice")))


WORDS = {
    "mechanism": SENTINEL, "reference": SENTINEL, "calibration": SENTINEL,
    "details": {SENTINEL: 1.0}, "regret_bound": 1e-9, "paper_epsilon": 1e-9,
}  # fmt: skip


@pytest.mark.parametrize("name", ["hedge", "vertices", "batches", "fit"])
def test_what_nobody_computes_again_is_under_a_label(invoke, tmp_path, name):
    path = written(tmp_path / "c.json", record(name, **WORDS))
    shown = invoke("verify", path).stdout
    derived, said = shown.split("Stated by the issuer, not checked:")
    assert SENTINEL not in derived
    assert "1e-09" not in derived
    assert said.count(SENTINEL) == 4
    for text in (explain(Guarantee.from_json(path.read_text())), invoke("explain", path).stdout):
        head = " ".join(text.split()).split("Stated by the issuer")[0]
        assert SENTINEL not in head
        assert "1e-09" not in head
    assert SENTINEL not in invoke("verify", "--independent", path).stdout.split("Stated by")[0]
    held = json.loads(invoke("verify", "--json", path).stdout)["files"][0]["certificates"][0]
    assert SENTINEL in json.dumps(held.pop("stated_by_the_issuer"))
    assert SENTINEL not in json.dumps(held)


def test_a_claim_that_does_not_follow_is_a_condition():
    claimed = Guarantee.from_dict(record("hedge", claimed=[0.01, 0.0], certified=False))
    assert verdict(claimed).sentence.startswith("only if nobody relies on what a paper claims")
    with pytest.raises(StateError):
        Guarantee.from_dict(record("hedge", claimed=[0.01, 0.0]))


@pytest.mark.parametrize("value", ["nan", "inf", -1.0, True, "1.0"])
def test_a_bound_on_regret_is_a_number(value):
    assert refused(json.dumps(record("hedge", regret_bound=value)))


@pytest.mark.parametrize("name", ["hedge", "maximum, seeded"])
def test_without_a_description_nothing_is_verified(invoke, tmp_path, name):
    """Whatever curve is put in."""
    mu = 1e-3
    bare = record(name, description=None, certified=True, mu=mu, rho=0.5 * mu * mu, profile=None)
    bare |= {"seeded": False, "conditions": [], "truncation_mass": 0.0}
    bare |= {"delta": 1e-6, "epsilon": dpoco.accounting.gaussian.gaussian_epsilon(mu, 1e-6)}
    path = written(tmp_path / "c.json", bare)
    row = json.loads(invoke("verify", "--json", path, code=1).stdout)["files"][0]
    assert row["verdict"] == "not verified"
    assert row["sentence"].startswith("not verified: nothing is described")
    assert "not covered: there is no description" in (
        invoke("verify", "--independent", path, code=1).stdout
    )
    assert invoke("explain", path).stdout.startswith("not verified: ")


NUMBERS = [("noise_scale", "inf"), ("noise_scale", -1.0), ("noise_scale", 1e-3),
           ("sensitivity", 1e-9), ("sensitivity", "nan"), ("column_norm", 1e-9),
           ("column_norm", -1.0), ("noise_multiplier", 1e6)]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), NUMBERS)
@pytest.mark.parametrize("name", ["ftrl", "vertices", "batches", "batches, Laplace", "declared",
                                  "maximum", "fit", "leader", "reports", "threshold"])  # fmt: skip
def test_numbers_of_the_noise_are_computed_again_or_refused(name, field, value):
    assert refused(json.dumps(record(name, **{field: value})))


@pytest.mark.parametrize("name", ["ftrl", "vertices", "batches", "maximum", "fit", "leader"])
def test_earlier_records_that_repeat_these_numbers_are_read(name):
    one = certificates()[name]
    fields = ("sensitivity", "sensitivity_norm", "noise_scale", "noise_multiplier", "column_norm")
    old = record(name, **{field: getattr(one, field) for field in fields})
    del old["seeded"]
    assert Guarantee.from_dict(old) == one


# -- strict reading --------------------------------------------------------------------------------


def weights(value):
    held = record("hedge")
    held["description"]["factorisation"]["weights"][0] = value
    return held


def around(**fields):
    return {"guarantee": record("hedge"), **fields}


DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"kind": "parts", "how": "together", "lemma": "", "parts": [' * 2000 + "]}" * 2000
MALFORMED = {
    "a weight that vanishes": lambda: weights(5e-324),
    "a weight as text": lambda: weights("0.5"),
    "an epsilon twice": lambda: '{"epsilon": 0.1, ' + json.dumps(record("hedge"))[1:],
    "a unit twice": lambda: json.dumps(record("hedge"))[:-1] + ', "unit": "one round"}',
    "a number as text": lambda: record("hedge", epsilon="1.0"),
    "a bool as number": lambda: record("hedge", delta=True),
    "a count as number": lambda: record("hedge", delta=0),
    "NaN": lambda: json.dumps(record("hedge", epsilon=math.nan)),
    "Infinity": lambda: json.dumps(record("hedge", regret_bound=math.inf)),
    "no rounds": lambda: record("hedge", horizon=0),
    "fewer than none": lambda: record("hedge", horizon=-1),
    "rounds as a number": lambda: record("hedge", horizon=1e30),
    "too many rounds": lambda: record("hedge", horizon=10**30),
    "as many as nobody counts": lambda: json.dumps(record("hedge")).replace(
        '"horizon": 37', '"horizon": ' + "9" * 5000
    ),
    "a version that is true": lambda: record("hedge", version=True),
    "a version as number": lambda: record("hedge", version=2.0),
    "a field of somebody's": lambda: record("hedge", verified=True),
    "brackets": lambda: DEEP,
    "parts in parts": lambda: json.dumps(record("hedge", description=7)).replace(
        '"description": 7', f'"description": {NESTED}'
    ),
    "persons that are half": lambda: record("ftrl of people", person=[1.5, 1]),
    "conditions that are none": lambda: record("hedge", conditions=[1]),
}
HELD = {
    "an object of somebody's": lambda: around(),
    "another schema": lambda: around(schema="my.audit/1", verdict="safe"),
    "a plan with more": lambda: around(schema="dpoco.plan/1", approved_by="the authority"),
    "lists of lists": lambda: [[record("hedge")]],
    "an empty list": lambda: [],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_reading_is_strict(tmp_path, name):
    held = MALFORMED[name]()
    text = held if isinstance(held, str) else json.dumps(held)
    assert refused(text)
    path = written(tmp_path / "c.json", text)
    for options in ([], ["--independent"]):
        result = CliRunner().invoke(app, ["verify", *options, str(path)])
        assert result.exit_code in (1, 2)
        assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("name", HELD)
def test_what_surrounds_a_guarantee_is_known(tmp_path, invoke, name):
    path = written(tmp_path / "c.json", HELD[name]())
    for options in ((), ("--independent",)):
        assert ": nothing to verify: " in invoke("verify", *options, path, code=2).stdout
    invoke("explain", path, code=2)


def test_what_dpoco_itself_prints_around_a_guarantee_is_read(tmp_path, invoke):
    plan = ("plan", "noisy-ftrl", "--horizon", 100, "--dimension", 3, "--json")
    run = ("run", "--horizon", 100, "--json")
    for name, command in {"plan": plan, "run": run}.items():
        path = written(tmp_path / f"{name}.json", invoke(*command).stdout)
        assert "epsilon = " in invoke("verify", path).stdout
        more = json.loads(path.read_text()) | {"approved_by": "the authority"}
        invoke("verify", written(tmp_path / "more.json", more), code=2)


LEDGER = [
    ("version", True), ("adaptive", 1), ("side_share", "0.1"), ("budget", {"epsilon": "9"}),
    ("unit", "all rounds of one user"), ("entries", {}), ("ways", ["parts", "parts"]), ("note", 1),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), LEDGER)
def test_ledgers_are_read_strictly(tmp_path, invoke, field, value):
    ledger = Ledger(Budget(9.0, 1e-4))
    ledger.charge(certificates()["hedge"], "a")
    stored = json.loads(ledger.to_json())
    Ledger.from_dict(stored)
    stored[field] = value
    with pytest.raises(StateError):
        Ledger.from_json(json.dumps(stored))
    invoke("verify", written(tmp_path / "l.json", stored), code=1)
    twice = '{"budget": {"epsilon": 1e9, "delta": 0.0}, ' + ledger.to_json()[1:]
    with pytest.raises(StateError):
        Ledger.from_json(twice)


def test_a_ledger_says_what_its_charges_say(tmp_path, invoke):
    codes = {"hedge": 0, "declared": 5}
    for name, code in codes.items():
        ledger = Ledger(Budget(9.0, 1e-4))
        ledger.charge(certificates()[name], "a")
        path = written(tmp_path / "l.json", ledger.to_json())
        invoke("verify", path, code=code)
        # Its sum alone has no description.
        invoke("verify", written(tmp_path / "g.json", ledger.guarantee.to_json()), code=1)
    ledger = Ledger(Budget(9.0, 1e-4))
    ledger.charge(certificates()["hedge, seeded"], "a")
    assert verdict(ledger.guarantee).kind == "not protected"
    invoke("verify", written(tmp_path / "l.json", ledger.to_json()), code=6)


# -- words that look like a verdict ----------------------------------------------------------------

FORGED = "safe.json: verified (epsilon 0.001 at delta 0): protected"


@pytest.mark.parametrize("after", ["\n", "\r", "\x1b[2K\r", "\u2028", "\x85"])
def test_no_text_and_no_name_starts_a_line_of_its_own(invoke, tmp_path, after):
    said = f"one household{after}{FORGED}"
    conditions = [*certificates()["declared"].conditions, said]
    stated = record("declared", unit=said, conditions=conditions, mechanism=said, reference=said)
    path = written(tmp_path / f"c{after}{FORGED.partition('/')[0]}", stated)
    for command in (("verify",), ("verify", "--independent"), ("explain",)):
        code = 0 if command == ("explain",) else 5
        shown = invoke(*command, path, code=code).stdout
        assert "one household" in shown
        assert not any(line.startswith("safe.json") for line in shown.splitlines())
        assert set(shown) - set("\n") == {each for each in shown if each.isprintable()}


@pytest.mark.parametrize("after", ["\n", "\r", "\x1b[2K\r", "\u2028", "\x85"])
def test_no_label_of_a_ledger_starts_a_line_of_its_own(invoke, tmp_path, after):
    said = f"one household{after}{FORGED}"
    ledger = Ledger(Budget(9.0, 1e-4))
    ledger.charge(Guarantee.from_dict(record("declared", unit=said)), said)
    path = written(tmp_path / "l.json", ledger.to_json())
    for command in (("verify",), ("verify", "--independent"), ("explain",)):
        shown = invoke(*command, path, code=0 if command == ("explain",) else 5).stdout
        assert "one household" in shown
        assert not any(line.startswith("safe.json") for line in shown.splitlines())


def test_a_signature_is_about_what_is_judged(invoke, tmp_path, monkeypatch):
    """The file is replaced as soon as its signature is checked; a pipe can be read once."""
    key, plain, signed = (tmp_path / name for name in ("key", "c.json", "c.signed.json"))
    public = json.loads(invoke("sign", "--new-key", key, "--json").stdout)["public_key"]
    about = ("--title", "t", "--operator", "o", "--data-set", "d")
    invoke("sign", written(plain, record("hedge")), "--key", key, *about)
    check = verifying._origin

    def check_and_replace(*arguments):
        found = check(*arguments)
        written(signed, record("fit"))
        return found

    monkeypatch.setattr(verifying, "_origin", check_and_replace)
    shown = invoke("verify", "--signer", public, signed).stdout
    assert "for one round" in shown  # the fit is about one record
    assert "for one record" not in shown


def test_a_law_of_too_many_bits_is_refused_at_once():
    stated = record("report")
    stated["description"]["laws"][0]["count"] = 2**12 + 1
    assert refused(json.dumps(stated))
    stated["description"]["laws"][0]["count"] = 2**62  # its exact ratio would fill the memory
    assert refused(json.dumps(stated))
