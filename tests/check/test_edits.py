"""Random edits of certificates, judged by what a reader of both verifiers would believe.

A reader believes the verdict and everything that is not under "Stated by the issuer, not checked".
What she believes must be true of the mechanism whose certificate was edited, or, where its
description was edited, too, of the one that is described: which of them ran is the issuer's word.
"""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path
from typing import Any

from tests.issued import SENTINEL, certificates, read_by_checker, read_by_library

from dpoco import Guarantee

SEED, EDITS, SAMPLE = 35, 2000, 120
VIEWS = ("others", "everyone", "server")
ACCEPTED = ("verified", "only if")
TRACES = ('"seeded": true', "SEEDED SOURCE", "SIMULATED REPORTS")

# -- edits -----------------------------------------------------------------------------------------

NUMBERS = (
    0.0,
    -1.0,
    0.5,
    1.0,
    2.0,
    5e-324,
    1e-9,
    1e308,
    "inf",
    "nan",
    "1.0",
    True,
    None,
    1,
    10**30,
)


def places(held: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a record."""
    rows = held.items() if isinstance(held, dict) else enumerate(held)
    found = []
    for key, value in rows:
        found.append((*path, key))
        if isinstance(value, (dict, list)):
            found += places(value, (*path, key))
    return found


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


def edit(rng: random.Random, record: dict[str, Any], words: list[str], other: Any) -> str:
    """Change one thing of a record in place, and return what kind of thing."""
    kind = rng.choice(("number", "number", "word", "word", "field", "list", "list", "swap", "swap",
                       "truth", "description", "add"))  # fmt: skip
    found = places(record)
    top = [path for path in found if len(path) == 1]
    numbers = [p for p in found if type(at(record, p)) in (int, float)]
    texts = [p for p in found if type(at(record, p)) is str]
    path = rng.choice({"number": numbers, "word": texts}.get(kind, top))
    holder, value = at(record, path[:-1]), at(record, path)
    if kind == "number":
        near = value * (1.0 + rng.choice((-1, 1)) * 10.0 ** -rng.randint(0, 10))
        nudged = round(near) + rng.choice((-1, 1)) if type(value) is int else near
        holder[path[-1]] = rng.choice((nudged, nudged, nudged, rng.choice(NUMBERS)))
    elif kind == "word":
        holder[path[-1]] = rng.choice((*words, SENTINEL))
    elif kind == "field":
        del holder[path[-1]]
    elif kind == "list":
        lists = [p for p in found if isinstance(at(record, p), list) and at(record, p)]
        chosen = at(record, rng.choice(lists)) if lists else []
        del chosen[rng.randint(0, max(0, len(chosen) - 1)) :]
    elif kind == "swap" and path[0] in other:
        holder[path[0]] = other[path[0]]
    elif kind == "truth":
        truths = [p for p in found if type(at(record, p)) is bool]
        chosen_path = rng.choice(truths)
        at(record, chosen_path[:-1])[chosen_path[-1]] ^= True
    elif kind == "description":
        record["description"] = rng.choice((None, other.get("description")))
    else:
        record[rng.choice(("noise_scale", "sensitivity", "column_norm", "verified", "note"))] = (
            rng.choice((1.0, "inf", -1.0, SENTINEL))
        )
    return kind


@functools.cache
def all_words() -> list[str]:
    """Return every text of every certificate, once."""
    texts = (texts_of(json.loads(each.to_json())) for each in certificates().values())
    return sorted({str(text) for own in texts for text in own})


def edited(number: int) -> tuple[str, str, bool]:
    """Return the name of a certificate, the text of an edit of it, and if a name is there twice."""
    rng, held = random.Random(f"{SEED}/{number}"), certificates()
    names = sorted(held)
    name = names[number % len(names)]
    record, other = (json.loads(held[each].to_json()) for each in (name, rng.choice(names)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        edit(rng, record, all_words(), other)
    text = json.dumps(record)
    twice = rng.random() < 0.04
    if twice:
        field = rng.choice(("epsilon", "unit", "certified", "seeded"))
        text = f'{{"{field}": {json.dumps(record.get(field))}, {text[1:]}'
    return name, text, twice and field in record


def texts_of(held: Any) -> list[str]:
    return [at(held, p) for p in places(held) if type(at(held, p)) is str]


# -- what a reader believes ------------------------------------------------------------------------


def holds(said: dict[str, Any], original: Guarantee, room: float) -> str:
    """Return which part of what a reader believes is not true of a mechanism; or nothing."""
    promised = bool(original.doubts) and not original.claimed
    caller = "declared" in json.dumps(original.to_dict().get("description"))
    epsilon, delta = float(said["epsilon"]), said["delta"]
    if caller and said["unit"].partition(" (")[0] != original.unit:
        return ""  # the caller's word, and "only if"
    longest = original.description.longest if original.description else original.horizon
    if said["unit"].partition(" (")[0] not in same_units(original):
        return f"unit {said['unit']!r} of {original.unit!r}"
    if original.change == "zero_out" and said["change"] == "replace":
        return "change"
    if VIEWS.index(said["view"]) > VIEWS.index(original.view):
        return "view"
    if longest is not None and said["horizon"] > longest and not promised:
        return "horizon"
    if said["person"] is not None:
        one = original.person or (1, 1)
        if said["person"][0] > one[0] or said["person"][1] < one[1]:
            return "person"
    # The checker's bounds on what selections tell are smaller in the third digit.
    if not original.delta_at(epsilon * (1.0 + 2e-12)) <= delta * (1.0 + room):
        return f"epsilon {epsilon!r} at {delta!r}: {original.delta_at(epsilon)!r}"
    return ""


def same_units(original: Guarantee) -> set[str]:
    """Return words for the same thing: a sum that is released once is one of either."""
    once = getattr(original.description, "pushes", 2) <= 1
    return {original.unit} | ({"one round", "one record"} if once else set())


def believed_wrongly(number: int, path: Path) -> list[str]:
    """Return what readers of the two verifiers would believe of an edit, and is not true."""
    name, text, twice = edited(number)
    original, wrong = certificates()[name], []
    description = json.loads(json.dumps(original.to_dict().get("description")))
    read = {"library": read_by_library(text, path), "checker": read_by_checker(text)}
    kinds = [kind for kind, _, _ in read.values()]
    # A description that was edited is another mechanism: each verifier is the other's judge.
    if kinds[0] in ACCEPTED and kinds[1] == "not proved":
        wrong.append(f"{number} ({name}): the library accepts what is not proved: {read}")
    if set(kinds) == set(ACCEPTED):
        wrong.append(f"{number} ({name}): {kinds}")
    for who, (kind, said, values) in read.items():
        where = f"{number} ({name}), {who}, {kind}"
        if kind not in ACCEPTED:
            continue
        if twice:
            wrong.append(f"{where}: a name is there twice")
        if SENTINEL in said and "stated by the issuer" not in said:
            wrong.append(f"{where}: words of the issuer")
        if json.loads(text).get("description") != description:
            continue
        if original.seeded and not any(word in text for word in TRACES):
            continue  # nothing says so any more: how the noise was drawn is the issuer's word
        if original.seeded or not original.private:
            wrong.append(f"{where}: nothing is protected")
        if kind == "verified" and original.doubts and not original.claimed:
            wrong.append(f"{where}: a promise is left out")
        if what := holds(values, original, 1e-9 if who == "library" else 1e-2):
            wrong.append(f"{where}: {what}")
        clauses = original.doubts if original.claimed is None else ()
        if who == "library" and not all(clause in said for clause in (*clauses, *original.derived)):
            wrong.append(f"{where}: a promise or a condition is left out")
    return wrong


def test_every_certificate_is_what_its_verdict_says(tmp_path):
    """Over a second: the certificates of all tests here are made."""
    assert len(certificates()) >= 30
    kinds: dict[str, set[str]] = {}
    for name, one in certificates().items():
        ours, _, _ = read_by_library(one.to_json(), tmp_path / "c.json")
        theirs, found, _ = read_by_checker(one.to_json())
        assert ours == theirs.lower(), (name, found)
        kinds.setdefault(ours, set()).add(name)
    assert kinds["not protected"] == {"hedge, seeded", "hedge, open", "maximum, seeded"}
    assert kinds["only if"] == {
        "leader, promised", "net, promised", "maximum", "threshold", "declared", "declared, pure",
        "composed", "hedge, claimed",
    }  # fmt: skip
    assert set(kinds) == {"verified", "only if", "not protected"}


def test_readers_of_a_sample_of_edits_believe_nothing_wrong(tmp_path):
    """Over a second: certificates are proved in ball arithmetic, or not."""
    wrong = [w for n in range(SAMPLE) for w in believed_wrongly(n, tmp_path / "c.json")]
    assert wrong == []


def test_readers_of_two_thousand_edits_believe_nothing_wrong(tmp_path):
    """Minutes: two thousand certificates are proved in ball arithmetic, or not."""
    path = tmp_path / "c.json"
    assert [w for n in range(SAMPLE, EDITS) for w in believed_wrongly(n, path)] == []
