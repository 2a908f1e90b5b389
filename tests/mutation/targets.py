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
    "accounting._coupling.bits": _tests("coupling"),
    "accounting._coupling.caps": _tests("coupling"),
    "accounting._coupling.profile": _tests("coupled_guarantee", "coupling", "three_ways_learners"),
    "accounting._experts.net_shape": _tests(_PLANE, _NETS),
    "accounting._experts.nets": _tests(_PLANE, _NETS),
    "accounting._experts.tracker_moments": _tests("tracker_sums", "tracker_accountant"),
    "accounting._ledger.book": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.costs": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.currencies": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.foreign_events": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger.opening": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._oco.gibbs_costs": _tests("oco_guarantees", "oco_parameters"),
    "accounting._oco.guarantee_parts": _tests("oco_guarantees", "oco_parameters"),
    "accounting._oco.leader_costs": _tests("oco_guarantees", "oco_parameters"),
    "accounting._profiles": _tests("pure", "coupled_guarantee"),
    "accounting.above_threshold": _tests(
        "three_ways_learners", _SELECTIONS, "tests/mechanisms/test_above_threshold.py"
    ),
    "accounting.attack_power": _tests("attack_power"),
    "accounting.bounded_range": _tests("bounded_range"),
    "accounting.budget": _tests("budget_value", "guarantee_value"),
    "accounting.coupling": _tests("coupling"),
    "accounting.euclidean": _tests(
        "oco_guarantees", "oco_parameters", "tests/oco/test_coupled_engines.py"
    ),
    "accounting.events": _tests("guarantee_value"),
    "accounting.gaussian": _tests("gaussian_accountant"),
    "accounting.generalized_gaussian": _tests("generalized_gaussian_accountant"),
    "accounting.guarantee": _tests("guarantee_value", "coupled_guarantee", "pure"),
    "accounting.lattice": _tests(_LATTICE, "tests/mechanisms/test_lattice.py"),
    "accounting.ledger": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting.noisy_max": _tests("three_ways_learners", _SELECTIONS),
    "accounting.polyhedral_geometry": _tests(_FRANK_WOLFE),
    "accounting.published": _tests("tree_frank_wolfe_published"),
    "accounting.pure": _tests("pure"),
    "accounting.rdp": _tests("concentrated_accountants"),
    "accounting.release": _tests("sum_release", "guarantee_value"),
    "accounting.selections": _tests("three_ways_learners", _FRANK_WOLFE),
    "accounting.truncation": _tests("truncation_charge"),
    "accounting.zcdp": _tests("concentrated_accountants"),
    "privacy.losses.combined": _tests("tests/privacy/test_algebra.py"),
    "privacy.losses.gaussian": _tests("tests/privacy/test_algebra.py", "gaussian_accountant"),
    "privacy.losses.loss": _tests(
        "tests/privacy/test_algebra.py", "pure", "concentrated_accountants"
    ),
    "privacy.losses.responses": _tests("tests/privacy/test_local_reports.py"),
    "privacy.losses.sampled": _tests("tests/privacy/test_sampled_gaussian.py"),
    "privacy.losses.sampled_few": _tests("tests/privacy/test_sampled_gaussian.py"),
    "privacy.losses.sampled_step": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.losses.sampled_sum": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.mechanisms.base": _tests("tests/privacy/test_descriptions.py"),
    "privacy.mechanisms.batch_fits": _tests("tests/privacy/test_batch_fits.py"),
    "privacy.neighbours": _tests("tests/privacy/test_descriptions.py"),
    "privacy.records": _tests("tests/privacy/test_descriptions.py"),
}
