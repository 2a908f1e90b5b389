"""``python -m tests.audit.bugs.compiled``: bugs of one line in compiled engines.

One build holds all of them (`tests.mutation.compiled`). With one turned on, a fork audits a learner
as ``dpoco audit`` does, which must notice. Nothing is written.

    python -m tests.audit.bugs.compiled --build build/ed
    python -m tests.audit.bugs.compiled --build build/ed --only one-alarm-too-many

Needs what mutants of C++ need: ``tree-sitter``, ``tree-sitter-cpp``, Ninja and a build directory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.mutation.warm import forked

__all__ = ["MUTATIONS", "Mutation", "look", "main"]

SOURCES = Path(__file__).parents[3] / "cpp" / "src"
_LIMIT = 120.0  # seconds of a check


@dataclass(frozen=True)
class Mutation:
    """An expression of a source, what becomes of it, and whose audit must notice.

    Attributes
    ----------
    name, story : str
        As of a planted bug.
    file : str
        Below ``cpp/src``.
    before : str
        Text that occurs exactly once in the file: an expression or a statement, or one between « »
        and what stands around it.
    after : str or None
        The expression that replaces it; None takes a statement out.
    learner : str
        Whose audit must notice.
    """

    name: str
    story: str
    file: str
    before: str
    after: str | None
    learner: str

    def site(self) -> tuple[int, int]:
        """Return the first byte of what is replaced, and the first behind it.

        Raises
        ------
        ValueError
            If the text does not occur exactly once.
        """
        text, around = (SOURCES / self.file).read_text(), self.before.translate({171: "", 187: ""})
        if text.count(around) != 1:
            raise ValueError(f"{self.name}: its text does not occur exactly once")
        left, middle, right = self.before.partition("«")
        own = right.partition("»")[0] if middle else left
        start = text.index(around) + (len(left) if middle else 0)
        return len(text[:start].encode()), len(text[: start + len(own)].encode())


MUTATIONS = [
    Mutation(
        "state-that-survives-an-alarm", "The sums of a test go on after its alarm.",
        "experts/shift_detector.cpp", "statistic_.reset();", None,
        "shift-detector",
    ),
    Mutation(
        "selection-that-survives-an-alarm", "An epoch goes on after the alarm that ends it.",
        "experts/shift_detector.cpp", "instance_.restart();", None,
        "shift-detector",
    ),
    Mutation(
        "one-fresh-draw-too-many", "A cap on switches allows one more.",
        "mechanisms/switch_rule.cpp", "switches_ >= settings_.max_switches",
        "switches_ > settings_.max_switches", "oblivious-tracker",
    ),
    Mutation(
        "one-switch-too-many", "The same cap, for decisions that are points.",
        "mechanisms/switch_rule.cpp", "switches_ >= settings_.max_switches",
        "switches_ > settings_.max_switches", "ctrl",
    ),
    Mutation(
        "one-alarm-too-many", "A threshold answers once more after its last alarm.",
        "mechanisms/above_threshold.cpp", "left_ = «settings_.alarms»",
        "settings_.alarms + 1", "above-threshold",
    ),
    Mutation(
        "half-the-forgetting", "Weights are shared at half the rate.",
        "experts/batch_share.cpp",
        "settings_.share_rate / static_cast<double>(n - 1)",
        "0.5 * settings_.share_rate / static_cast<double>(n - 1)",
        "batch-share",
    ),
    Mutation(
        "uncentred-for-an-even-number", "Sums of an even number of experts are not centred.",
        "experts/batch_share.cpp", "settings_.centered",
        "settings_.centered && n % 2 == 1", "batch-share",
    ),
    Mutation(
        "clock-that-stops-at-nan", "A record that is not finite does not move its arm's clock.",
        "bandits/high_dimensional_bandit.cpp", "model.skip(model.round())",
        "other != arm ? model.skip(model.round()) : void()", "high-dimensional-bandit",
    ),
    Mutation(
        "off-diagonal-counted-twice", "Packed products carry the factor 2, not its root.",
        "bandits/linucb.cpp", "kSqrtTwo * own", "2.0 * own",
        "linucb",
    ),
    Mutation(
        "off-diagonal-counted-twice-by-a-leader", "The same in a learner with a squared loss.",
        "oco/noisy_ftrl.cpp", "add_quadratic(clipped, y, settings_.vector_scale, add)",
        "add_quadratic(clipped, y, settings_.vector_scale, [&](double entry) {\n"
        "  std::size_t left = i, row = features.size();  // of the triangle\n"
        "  while (row > 0 && left >= row) left -= row--;\n"
        "  add(left == 0 || row == 0 ? entry : kSqrtTwo * entry);\n})",
        "noisy-ftrl",
    ),
    Mutation(
        "scale-without-the-batch", "Noise for a batch's mean is added to its sum.",
        "frank_wolfe/frank_wolfe.cpp",
        "static_cast<double>(settings_.batch) * weight()", "weight()", "polyhedral-frank-wolfe",
    ),
    Mutation(
        "noise-of-a-block-repeats", "All rounds of a block of a run get the noise of the first.",
        "mechanisms/continual_sum.cpp", "std::exchange(next_, next_ + width())",
        "next_", "noisy-ftrl",
    ),
    Mutation(
        "last-record-of-a-run-dropped", "The last of many records in one call is not added.",
        "oco/record_learner.cpp", "admit(label, !losses.empty())",
        "t > 0 && t + 1 == rounds ? 0.0 : admit(label, !losses.empty())",
        "tree-frank-wolfe",
    ),
    Mutation(
        "noise-shared-between-coordinates", "Entries beyond a block repeat those of the first.",
        "mechanisms/noise_process.cpp",
        "current_->fill(source, out)",
        "current_->fill(source, out), [&] {\n"
        "  for (std::size_t i = 0; i < out.size(); ++i)\n"
        "    if (i % d_ >= 16) out[i] = out[i - 16];\n}()",
        "continual-sum",
    ),
]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if every change is noticed and the sources as they are raise no alarm."""
    from tests.mutation.compiled import Change, Page, built, loaded

    options = _options(arguments)
    chosen = [each for each in MUTATIONS if options.only is None or each.name in options.only]
    sources: dict[Path, dict[int, Change]] = {}
    for number, each in enumerate(chosen):
        change = Change("", 0, *each.site(), each.before, each.after)
        sources.setdefault(SOURCES / each.file, {})[number] = change
    with tempfile.TemporaryDirectory() as work:
        page = Page(len(chosen), Path(work))
        extensions, _, compiled = built(sources, (), options.build.absolute(), Path(work))
        loaded(extensions)
        alarms = {each.name for each in chosen if _verdict(each) != "silent"}
        missed = []
        print("| change | what went wrong | where | result |\n|---|---|---|---|")
        for number, each in enumerate(chosen):
            page.turn_on(number)
            found = _verdict(each) if number in compiled else "no build"
            missed += [each.name] * (found != "noticed")
            print(f"| {each.name} | {each.story} | `{each.file}` | {found} |", flush=True)
    print(f"not noticed: {missed}; noticed in what is correct: {alarms}", file=sys.stderr)
    return int(bool(alarms or missed))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.bugs.compiled")
    parser.add_argument("--build", type=Path, default=Path("build/ed"), help="of C++, with Ninja")
    parser.add_argument("--only", action="append", help="name of a change; repeatable")
    return parser.parse_args(arguments)


def look(learner: str) -> bool:
    """Whether the audit of a learner, with fewer runs than by default, finds a violation."""
    from dpoco.audit import audit_learner  # with the changed sources

    warnings.simplefilter("ignore")
    return audit_learner(learner, trials=300).violated


def _verdict(mutation: Mutation) -> str:
    """Return what a fork says, with the changes that are on."""
    found = forked(partial(look, mutation.learner), _LIMIT)
    return {True: "noticed", False: "silent", None: "timeout"}.get(found, "error")


if __name__ == "__main__":
    sys.exit(main())
