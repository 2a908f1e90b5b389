"""Which modules are mutated, and the tests that answer for each: fast ones, quickest first."""

from __future__ import annotations

__all__ = ["TARGETS"]

_FRANK_WOLFE = "tests/frank_wolfe/test_polyhedral_accountant.py"
_LATTICE = "tests/mechanisms/test_lattice_charge.py"
_PLANE, _NETS = "tests/oco/test_lipschitz_plane.py", "tests/oco/test_lipschitz_nets.py"
_SELECTIONS = "tests/mechanisms/test_selection_parameters.py"


def _tests(*names: str) -> tuple[str, ...]:
    names = ("edges", *names)
    return tuple(name if "/" in name else f"tests/accounting/test_{name}.py" for name in names)


TARGETS: dict[str, tuple[str, ...]] = {
    "_coupled_costs": _tests("coupled_costs", "oco_regret_bounds"),
    "_coupled_statement": _tests("oco_guarantees", "oco_parameters"),
    "_experts.net_shape": _tests(_PLANE, _NETS),
    "_experts.nets": _tests(_PLANE, _NETS),
    "_experts.tracker_moments": _tests("tracker_sums", "tracker_accountant"),
    "_ledger.book": _tests("ledger_value", "ledger_use", "ledger"),
    "_ledger.costs": _tests("ledger_value", "ledger_use", "ledger"),
    "_ledger.currencies": _tests("ledger_value", "ledger_use", "ledger"),
    "_ledger.foreign_events": _tests("ledger_value", "ledger_use", "ledger"),
    "_ledger.opening": _tests("ledger_value", "ledger_use", "ledger"),
    "_profiles": _tests("pure", "coupled_guarantee"),
    "above_threshold": _tests(
        "three_ways_learners", _SELECTIONS, "tests/mechanisms/test_above_threshold.py"
    ),
    "attack_power": _tests("attack_power"),
    "bounded_range": _tests("bounded_range"),
    "budget": _tests("budget_value", "guarantee_value"),
    "euclidean": _tests("oco_guarantees", "oco_parameters", "tests/oco/test_coupled_engines.py"),
    "events": _tests("guarantee_value"),
    "gaussian": _tests("gaussian_accountant"),
    "generalized_gaussian": _tests("generalized_gaussian_accountant"),
    "guarantee": _tests("guarantee_value", "coupled_guarantee", "pure"),
    "lattice": _tests(_LATTICE, "tests/mechanisms/test_lattice.py"),
    "ledger": _tests("ledger_value", "ledger_use", "ledger"),
    "local_reports": _tests("three_ways_learners", "three_ways"),
    "noisy_max": _tests("three_ways_learners", _SELECTIONS),
    "polyhedral_geometry": _tests(_FRANK_WOLFE),
    "published": _tests("tree_frank_wolfe_published"),
    "pure": _tests("pure"),
    "rdp": _tests("concentrated_accountants"),
    "release": _tests("sum_release", "guarantee_value"),
    "sampled_gaussian": _tests("sampled_gaussian"),
    "selections": _tests("three_ways_learners", _FRANK_WOLFE),
    "truncation": _tests("truncation_charge"),
    "zcdp": _tests("concentrated_accountants"),
}
