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
    "accounting._coupled_regret": _tests("oco_regret_bounds"),
    "accounting._coupled_parameters": _tests("oco_guarantees", "oco_parameters"),
    "accounting._coupled_setting": _tests("oco_guarantees", "oco_parameters"),
    "accounting._ledger_book": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._ledger_sums": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting._certificate": _tests(
        "tests/privacy/test_loss_records.py",
        "guarantee_value",
        "tests/privacy/test_certificates.py",
    ),
    "accounting.above_threshold": _tests(
        "three_ways_learners", _SELECTIONS, "tests/mechanisms/test_above_threshold.py"
    ),
    "accounting.attack_power": _tests("attack_power"),
    "accounting.budget": _tests("budget_value", "guarantee_value"),
    "accounting.euclidean": _tests(
        "oco_guarantees", "oco_parameters", "tests/oco/test_coupled_engines.py"
    ),
    "accounting.events": _tests("guarantee_value", "ledger_use", "ledger"),
    "accounting.gaussian": _tests("gaussian_accountant"),
    "accounting.generalized_gaussian": _tests("generalized_gaussian_accountant"),
    "accounting.guarantee": _tests("guarantee_value", "tests/privacy/test_loss_records.py", _PURE),
    "accounting.lattice": _tests(_LATTICE, "tests/mechanisms/test_lattice.py"),
    "accounting.ledger": _tests("ledger_value", "ledger_use", "ledger"),
    "accounting.nets": _tests(_PLANE, _NETS),
    "accounting.noisy_max": _tests("three_ways_learners", _SELECTIONS),
    "accounting.published": _tests("tree_frank_wolfe_published", "oco_regret_bounds"),
    "accounting.rdp": _tests("concentrated_accountants"),
    "accounting.release": _tests("sum_release", "guarantee_value"),
    "accounting.truncation": _tests("truncation_charge"),
    "accounting.zcdp": _tests("concentrated_accountants"),
    "privacy.losses.bounded_range": _tests("tests/privacy/test_bounded_range.py", *_TRACKER),
    "privacy.losses.combined": _tests("tests/privacy/test_algebra.py"),
    "privacy.losses.decaying": _tests("three_ways_learners", _FRANK_WOLFE),
    "privacy.losses.flagged_draws": _tests(*_TRACKER),
    "privacy.losses.coupled_bits": _tests("tests/privacy/test_coupled_bits.py"),
    "privacy.losses.gaussian": _tests("tests/privacy/test_algebra.py", "gaussian_accountant"),
    "privacy.losses.line_sum": _tests("tests/privacy/test_coupled_bits.py"),
    "privacy.losses.loss": _tests(
        "tests/privacy/test_algebra.py", _PURE, "concentrated_accountants"
    ),
    "privacy.losses.responses": _tests("tests/privacy/test_local_reports.py"),
    "privacy.losses.sampled": _tests("tests/privacy/test_sampled_gaussian.py"),
    "privacy.losses.sampled_step": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.losses.sampled_sum": _tests("tests/privacy/test_sampled_line.py"),
    "privacy.mechanisms.base": _tests("tests/privacy/test_descriptions.py", _KINDS),
    "privacy.mechanisms.batch_fits": _tests("tests/privacy/test_batch_fits.py"),
    "privacy.mechanisms.bounds": _tests(
        "tests/privacy/test_gaussian_sum.py",
        "sum_release",
        _NETS,
        "tests/oco/test_noisy_ftrl_accountant.py",
    ),
    "privacy.mechanisms.factorisations": _tests(
        "tests/privacy/test_gaussian_sum.py",
        "tests/mechanisms/test_normalised.py",
        "sum_norms",
        _LATTICE,
    ),
    "privacy.mechanisms.gaussian_sum": _tests(
        "tests/privacy/test_gaussian_sum.py", _LATTICE, "sum_release", "sum_norms"
    ),
    "privacy.mechanisms.lattice": _tests("tests/privacy/test_gaussian_sum.py", _LATTICE),
    "privacy.mechanisms.batch_release": _tests(_KINDS),
    "privacy.mechanisms.local_report": _tests("tests/privacy/test_local_reports.py"),
    "privacy.mechanisms.selections": _tests(_KINDS),
    "privacy.mechanisms.tracker_draws": _tests(_KINDS),
    "privacy.losses.tilted_draws": _tests("tests/privacy/test_tilted_draws.py"),
    "privacy.mechanisms.coupled_draws": _tests(
        "tests/privacy/test_coupled_draws.py", "tests/privacy/test_gibbs_draws.py"
    ),
    "privacy.neighbours": _tests("tests/privacy/test_descriptions.py"),
    "privacy.records": _tests("tests/privacy/test_descriptions.py"),
}
