"""Which modules are mutated, and the tests that answer for each: fast ones, quickest first."""

from __future__ import annotations

__all__ = ["TARGETS"]

_FRANK_WOLFE = "tests/frank_wolfe/test_polyhedral_accountant.py"
_LATTICE = "tests/mechanisms/test_lattice_charge.py"
_PLANE, _NETS = "tests/oco/test_lipschitz_plane.py", "tests/oco/test_lipschitz_nets.py"
_PURE = "tests/privacy/test_pure.py"
_KINDS = "tests/privacy/test_selection_kinds.py"
_TRACKER = "tests/privacy/test_tracker_sums.py", "tests/privacy/test_tracker_accountant.py"
_SELECTIONS = "tests/mechanisms/test_selection_parameters.py"


def _tests(*names: str) -> tuple[str, ...]:
    names = ("edges", *names)
    return tuple(name if "/" in name else f"tests/accounting/test_{name}.py" for name in names)


TARGETS: dict[str, tuple[str, ...]] = {
    "accounting._coupling.bits": _tests("coupling"),
    "accounting._coupling.caps": _tests("coupling"),
    "accounting._coupling.profile": _tests("coupled_guarantee", "coupling", "three_ways_learners"),
    "accounting._experts.net_shape": _tests(_PLANE, _NETS),
    "accounting._experts.nets": _tests(_PLANE, _NETS),
    "accounting._ledger.book": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.costs": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.currencies": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.foreign_events": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.opening": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._oco.gibbs_costs": _tests("oco_guarantees", "oco_parameters"),
    "accounting._oco.guarantee_parts": _tests("oco_guarantees", "oco_parameters"),
    "accounting._oco.leader_costs": _tests("oco_guarantees", "oco_parameters"),
    "accounting._profiles": _tests(_PURE, "coupled_guarantee"),
    "accounting.above_threshold": _tests(
        "three_ways_learners", _SELECTIONS, "tests/mechanisms/test_above_threshold.py"
    ),
    "accounting.attack_power": _tests("attack_power"),
    "accounting.budget": _tests("budget_value", "guarantee_value"),
    "accounting.coupling": _tests("coupling"),
    "accounting.euclidean": _tests(
        "oco_guarantees", "oco_parameters", "tests/oco/test_coupled_engines.py"
    ),
    "accounting.events": _tests("guarantee_value"),
    "accounting.gaussian": _tests("gaussian_accountant"),
    "accounting.generalized_gaussian": _tests("generalized_gaussian_accountant"),
    "accounting.guarantee": _tests("guarantee_value", "coupled_guarantee", _PURE),
    "accounting.lattice": _tests(_LATTICE, "tests/mechanisms/test_lattice.py"),
    "accounting.ledger": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting.noisy_max": _tests("three_ways_learners", _SELECTIONS),
    "accounting.polyhedral_planner": _tests(_FRANK_WOLFE),
    "accounting.published": _tests("tree_frank_wolfe_published"),
    "accounting.rdp": _tests("concentrated_accountants"),
    "accounting.release": _tests("sum_release", "guarantee_value"),
    "accounting.truncation": _tests("truncation_charge"),
    "accounting.zcdp": _tests("concentrated_accountants"),
    "privacy.losses.bounded_range": _tests("tests/privacy/test_bounded_range.py"),
    "privacy.losses.combined": _tests("tests/privacy/test_algebra.py"),
    "privacy.losses.decaying": _tests("three_ways_learners", _FRANK_WOLFE),
    "privacy.losses.flagged_draws": _tests(*_TRACKER),
    "privacy.losses.gaussian": _tests("tests/privacy/test_algebra.py", "gaussian_accountant"),
    "privacy.losses.loss": _tests(
        "tests/privacy/test_algebra.py", _PURE, "concentrated_accountants"
    ),
    "privacy.losses.range_series": _tests(*_TRACKER),
    "privacy.losses.responses": _tests("tests/privacy/test_local_reports.py"),
    "privacy.losses.sampled": _tests("tests/privacy/test_sampled_gaussian.py"),
    "privacy.losses.sampled_few": _tests("tests/privacy/test_sampled_gaussian.py"),
    "privacy.losses.sampled_step": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.losses.sampled_sum": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.mechanisms.base": _tests("tests/privacy/test_descriptions.py", _KINDS),
    "privacy.mechanisms.batch_fits": _tests("tests/privacy/test_batch_fits.py"),
    "privacy.mechanisms.batch_release": _tests(_KINDS),
    "privacy.mechanisms.selections": _tests(_KINDS),
    "privacy.mechanisms.thresholds": _tests(_KINDS),
    "privacy.mechanisms.tracker_draws": _tests(_KINDS),
    "privacy.neighbours": _tests("tests/privacy/test_descriptions.py"),
    "privacy.records": _tests("tests/privacy/test_descriptions.py"),
}
