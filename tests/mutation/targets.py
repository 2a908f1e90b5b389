"""Rooms of what is trusted: sources that are mutated, tests that answer for them, and results.

``results.json`` holds what the last recorded run of each room counted. The table of
``docs/privacy/mutation.md`` is written from it, and samples are held to its shares.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "RESULTS", "ROOMS", "Room", "record", "recorded", "table"]

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "privacy" / "mutation.md"
MARKS = "<!-- results -->\n", "<!-- end of results -->\n"


@dataclass(frozen=True)
class Room:
    """What is mutated, as patterns below ``python/dpoco`` or ``cpp/src``, and the tests.

    `programs` are made of files in ``tests/cpp``; ``programs.py`` among the tests runs them.
    """

    modules: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    programs: tuple[tuple[str, ...], ...] = ()


_PLAYED = (
    "tests/contract/test_releases.py", "tests/state/test_same_bits.py", "tests/test_refused.py",
)  # fmt: skip
# Tests of learners that are quick, and look at more than what is released.
_LEARNERS = (
    "tests/experts/test_expert_learner.py", "tests/frank_wolfe/test_sufficient_statistics.py",
    "tests/oco/test_lipschitz.py", "tests/oco/test_lipschitz_limits.py",
    "tests/oco/test_lipschitz_plane.py", "tests/people/test_learners.py",
    "tests/state/test_forged_states.py", "tests/state/test_memory.py",
)  # fmt: skip
# Tests of engines against references of their own, and of what audits read in them.
_ENGINES = (
    "tests/bandits/test_high_dimensional.py", "tests/bandits/test_linucb.py",
    "tests/bandits/test_linucb_limits.py", "tests/bandits/test_rounds.py",
    "tests/bandits/test_states.py",
    "tests/experts/test_batch_share.py", "tests/experts/test_epoch_selector.py",
    "tests/experts/test_prefix_hedge.py", "tests/experts/test_shift_detector.py",
    "tests/experts/test_shift_statistic.py", "tests/experts/test_tracker.py",
    "tests/frank_wolfe/test_limits.py", "tests/frank_wolfe/test_sufficient_statistics.py",
    "tests/frank_wolfe/test_polyhedral_audit.py",
    "tests/frank_wolfe/test_polyhedral_reference.py", "tests/oco/test_comw_engine.py",
    "tests/oco/test_comw_engine_protocol.py",
    "tests/oco/test_ctrl_engine.py", "tests/oco/test_ctrl_engine_law.py",
    "tests/oco/test_coupled_custom.py", "tests/oco/test_coupled_engines.py",
    "tests/oco/test_ctrl_solver.py",
    "tests/oco/test_lipschitz_nets.py", "tests/oco/test_noisy_ftrl_audit.py",
    "tests/oco/test_noisy_newton.py", "tests/people/test_limiter.py",
    "tests/state/test_forged_states.py",
)  # fmt: skip

ROOMS = {
    "kernel": Room(("privacy/*.py", "privacy/*/*.py"), (), ("tests/privacy/test_vectors.py",)),
    "mechanisms": Room(
        ("mechanisms/_mechanisms.py", "_clipping.py"), (),
        (
            *_PLAYED, "tests/mechanisms/test_above_threshold.py",
            "tests/mechanisms/test_continual_sum.py", "tests/mechanisms/test_engine_settings.py",
            "tests/mechanisms/test_noisy_max.py", "tests/losses/test_clipping.py",
            "tests/contract/test_reading.py", "tests/journal/test_budget.py",
            "tests/state/test_memory.py",
        ),
    ),
    "settings": Room(
        ("oco/_*.py", "frank_wolfe/_*.py", "experts/_*.py", "bandits/_learners.py"), (),
        (
            *_PLAYED, *_LEARNERS, "tests/contract/test_reading.py", "tests/experts/test_planner.py",
            "tests/oco/test_coupled_custom.py",
            "tests/oco/test_settings.py",
        ),
    ),
    "randomizers": Room(
        ("local/_randomizers.py",), (),
        (
            "tests/test_refused.py",
            *(f"tests/local/test_{name}.py" for name in (
                "channel", "client", "edge_cases", "pool", "private_contexts",
                "randomizers", "simulate", "specs", "subsets",
            )),
        ),
    ),
    "draws": Room(
        (), ("random/*.cpp", "noise/*.cpp", "mechanisms/*.cpp", "losses/record.cpp"),
        (*_PLAYED, "tests/noise", "tests/random", "tests/losses/test_clipping.py",
         "tests/mechanisms/test_banded.py", "tests/mechanisms/test_continual_sum.py",
         "tests/mutation/programs.py"),
        (
            ("test_draws.cpp", "test_mechanisms.cpp", "test_discrete.cpp", "test_lattice.cpp",
             "test_losses.cpp", "test_random.cpp", "test_selection.cpp"),
            ("test_scripted_words.cpp",),
        ),
    ),
    "engines": Room(
        (), ("oco/*.cpp", "frank_wolfe/*.cpp", "experts/*.cpp", "bandits/*.cpp", "core/*.cpp"),
        (*_PLAYED, *_LEARNERS, *_ENGINES, "tests/mutation/programs.py"),
        (
            ("test_ctrl.cpp", "test_comw.cpp", "test_comw_couplings.cpp", "test_oco_parts.cpp",
             "test_noisy_ftrl.cpp"),
            ("test_participants.cpp", "test_experts.cpp", "test_batch_share.cpp", "test_nets.cpp",
             "test_prefix_hedge.cpp", "test_linucb.cpp", "test_high_dimensional_bandit.cpp",
             "test_frank_wolfe.cpp", "test_polyhedral.cpp"),
        ),
    ),
}  # fmt: skip


def recorded() -> dict[str, dict[str, int | str]]:
    """Return the counts of the last recorded run of each room."""
    found: dict[str, dict[str, int | str]] = json.loads(RESULTS.read_text())
    return found


def record(room: str, counts: dict[str, int | str]) -> None:
    """Keep the counts of a run, and write the table of the page."""
    RESULTS.write_text(json.dumps(recorded() | {room: counts}, indent=1, sort_keys=True) + "\n")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(before + MARKS[0] + table() + MARKS[1] + after, encoding="utf-8")


def table() -> str:
    """Return the recorded counts as a table of the page."""
    rows = ["| room | mutants | run | harmless | killed | survived | share killed |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    for room, each in sorted(recorded().items()):
        killed, survived = int(each["killed"]), int(each["survived"])
        share = f"{killed / max(1, killed + survived):.1%}"
        numbers = [each[name] for name in ("mutants", "run", "harmless", "killed", "survived")]
        rows.append("| " + " | ".join(map(str, [room, *numbers, share])) + " |")
    return "\n".join(rows) + "\n"
