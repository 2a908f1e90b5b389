"""Losses of every kind that stored guarantees name: written, read strictly, told in words."""

from __future__ import annotations

import dataclasses
import math

import pytest

from dpoco.accounting import Guarantee, events
from dpoco.accounting._certificate import _LOSSES, read_loss
from dpoco.accounting.explanation import in_words
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import UNKNOWN, Either, Group, Least, Tailed, Together
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.decaying import Decaying, Returning
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Pure, Zcdp
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws

BITS = {"forced_switch": 0.5, "factor_floor": 0.9, "later_bits": 2, "shift": 0.01}
DRAWS = {"cap": 3, "sensitivity_ratio": 0.1, "b": 0.01, "dimension": 4, "rank": 1}
TRACKER = {"learning_rate": 0.02, "forced_switch": 0.1, "batch": 8, "horizon": None,
           "share_rate": 0.001, "experts": 10, "prior": "share", "max_resamples": 5}  # fmt: skip
# The loss, its record, a word of its text, and values that no proof is about.
RECORDS = [
    (
        BoundedRange(0.25, 4),
        {"kind": "bounded_range", "range": 0.25, "count": 4},
        "interval of length 0.25",
        {"range": (-1.0, math.nan), "count": (0, True)},
    ),
    (
        Group(Pure(0.5), 3),
        {"kind": "group", "one": {"kind": "pure", "epsilon": 0.5}, "size": 3},
        "a chain of 3 changes",
        {"one": ({"kind": "pure"}, {"kind": "pure", "epsilon": -1.0}, 0.5, "pure"),
         "size": (1, 2.5, True, "3")},
    ),
    (
        Together((Gaussian(0.5), Pure(0.25))),
        {"kind": "together", "parts": [{"kind": "gdp", "mu": 0.5},
                                       {"kind": "pure", "epsilon": 0.25}]},
        "ratios of at most e^0.25",
        {"parts": ([{"kind": "gdp", "mu": -1.0}], [{"kind": "other"}], ["pure"])},
    ),
    (
        Either((Gaussian(0.5), Pure(0.25))),
        {"kind": "either", "parts": [{"kind": "gdp", "mu": 0.5},
                                     {"kind": "pure", "epsilon": 0.25}]},
        "ratios of at most e^0.25",
        {"parts": ([{"kind": "gdp", "mu": -1.0}], [{"kind": "other"}], ["pure"])},
    ),
    (
        CoupledBits(**BITS, draws=0.3),
        {"kind": "gaussian", "mu": 0.3, **BITS},
        "mu = 0.3 (GDP) together",
        {"mu": (-1.0, "many"), "forced_switch": (0.0,), "later_bits": (2.5, math.inf)},
    ),
    (
        TiltedDraws(**BITS, **DRAWS, change="replace"),
        {"kind": "renyi", **BITS, **DRAWS, "relation": "replace"},
        "at most 3 draws",
        {"relation": ("other",), "cap": (-1,), "b": (math.nan,)},
    ),
    (
        ReturningDraws(**BITS, **DRAWS, change="replace", rounds=3, together=2, block=5),
        {"kind": "renyi_of_person", **BITS, **DRAWS, "relation": "replace", "rounds": 3,
         "together": 2, "block": 5},
        "blocks with 3 rounds of a person",
        {"rounds": (0, True), "together": (0,), "block": (0, 1.5), "cap": (0,)},
    ),
    (
        Decaying("pure", 1.0, 0.5, 0.5, 0, 10),
        {"kind": "selections", "law": "pure", "range": 1.0, "spread": 0.5, "exponent": 0.5,
         "offset": 0, "terms": 10},
        "10 selections",
        {"law": ("x",), "range": (-1.0,), "spread": (2.0,), "exponent": (0.95,), "offset": (2,),
         "terms": (0,)},
    ),
    (
        Returning("pure", 1.0, 0.5, 0.5, 0, 10, 3, 7, 2, 4, 0),
        {"kind": "selections_of_person", "law": "pure", "range": 1.0, "spread": 0.5,
         "exponent": 0.5, "offset": 0, "terms": 10, "rounds": 3, "separation": 7, "batch": 2,
         "arms": 4, "forced": 0},
        "up to 3 rounds of a person",
        {"range": (-1.0,), "terms": (0,), "rounds": (0, 2.5), "separation": (0, None),
         "batch": (0,), "arms": (0, 1.0), "forced": (-1, 0.5)},
    ),
    (
        FlaggedDraws(**TRACKER),
        {"kind": "tracker", **TRACKER},
        "bounded range 0.0399",
        {"learning_rate": (0.0,), "forced_switch": (1.5,), "batch": (0,), "horizon": (0,),
         "share_rate": (0.95, None), "experts": (0,), "prior": ("other", "at_most"),
         "max_resamples": (-1,)},
    ),
    (
        Pure(0.5),
        {"kind": "pure", "epsilon": 0.5},
        "e^0.5",
        {"epsilon": (-1.0, math.nan, True)},
    ),
    (
        Responses(1.0, 3),
        {"kind": "local_reports", "epsilon": 1.0, "delta": 0.0, "reports": 3},
        "3 randomised responses",
        {"epsilon": (0.0, math.nan), "delta": (-1e-9, 1e-9, None),
         "reports": (0, 10**6 + 1, True, 1.5)},
    ),
]  # fmt: skip


def test_every_kind_is_here():
    assert {type(loss) for loss, *_ in RECORDS} == set(_LOSSES)


@pytest.mark.parametrize(("loss", "record", "word", "wrong"), RECORDS)
def test_a_loss_and_its_record(loss, record, word, wrong):
    assert loss.to_dict() == record
    assert read_loss(record) == loss
    assert word in in_words(loss)
    for bad in ({**record, "more": 1}, {"kind": record["kind"]}, {**record, "kind": "other"}):
        with pytest.raises(ValueError, match=r"fields|kind"):
            read_loss(bad)
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError):  # noqa: PT011 - many texts
                read_loss({**record, name: value})


@pytest.mark.parametrize(("loss", "record", "word", "wrong"), RECORDS)
def test_what_has_an_event_of_dp_accounting(loss, record, word, wrong):
    pytest.importorskip("dp_accounting")
    stated = dataclasses.replace(Guarantee.none(10), epsilon=9.0, delta=1e-6, loss=loss)
    if isinstance(loss, BoundedRange):
        assert stated.event == events.zcdp_event(loss.rho)
    else:
        with pytest.raises(ValueError, match="no dp_accounting event"):
            _ = stated.event


ALL = [loss for loss, *_ in RECORDS]
ALL += [Gaussian(1.0), Zcdp(0.1), UNKNOWN, Together((Gaussian(1.0), Pure(0.1)))]
ALL += [Either((Gaussian(1.0), Pure(0.1))), Least((Pure(0.1), Zcdp(0.1)))]
ALL += [Tailed(each, 1e-9) for each in (Gaussian(1.0), Pure(0.1), Zcdp(0.1), UNKNOWN)]


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_no_number_is_made_of_what_is_none(loss):
    for wrong in (math.nan, -0.1):
        with pytest.raises(ValueError, match="epsilon"):
            loss.delta(wrong)
        with pytest.raises(ValueError, match="delta"):
            loss.epsilon(wrong)
    with pytest.raises(ValueError, match="delta"):
        loss.epsilon(1.5)
    assert loss.delta(math.inf) <= loss.delta(1e-3) <= 1.0
