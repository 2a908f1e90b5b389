"""``python -m tests.audit.bugs.compiled``: bugs of one line in the compiled trusted base.

One build holds all of them (`tests.mutation.compiled`). With one turned on, a fork looks at what is
correct otherwise, and a check of the corpus must notice. Nothing is written.

    python -m tests.audit.bugs.compiled --build build/ed
    python -m tests.audit.bugs.compiled --build build/ed --only sign-of-a-selection

Needs what mutants of C++ need: ``tree-sitter``, ``tree-sitter-cpp``, Ninja and a build directory.
"""

from __future__ import annotations

import argparse
import importlib
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
    """An expression of a source, what becomes of it, and who must notice.

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
    subject, check : str
        ``module:name`` in this folder: what is looked at, and the check that must notice. A subject
        without a module is the name of a standard case.
    """

    name: str
    story: str
    file: str
    before: str
    after: str | None
    subject: str
    check: str

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
        "sign-of-a-selection", "An argmin for an argmax.",
        "mechanisms/noisy_max.cpp", "settings_.largest ? 1.0 : -1.0",
        "settings_.largest ? -1.0 : 1.0", "selections:the_useful_maximum", "checks:utility",
    ),
    Mutation(
        "half-the-noise-of-a-selection", "The factor 2 of the exponential mechanism is lost.",
        "mechanisms/noisy_max.cpp", "scale * noise[i]", "0.5 * scale * noise[i]",
        "selections:the_counter", "checks:black_box",
    ),
    Mutation(
        "query-without-noise", "Only the threshold is noisy.",
        "mechanisms/above_threshold.cpp", "excess + draw(settings_.query_scale, source)",
        "excess", "selections:the_threshold", "checks:replay",
    ),
    Mutation(
        "noise-of-the-last-node-only", "A prefix has the noise of its last node instead of all.",
        "mechanisms/noise_process.cpp",
        "before == 0 ? nullptr : prefix[std::countr_zero(before)].data()",
        "nullptr",
        "sums:the_sum", "checks:likelihood",
    ),
    Mutation(
        "clip-that-does-nothing", "Every vector counts as within its bound.",
        "losses/record.cpp", "1.0 < ratio ? 1.0 : ratio", "ratio >= 0.0 ? 1.0 : ratio",
        "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "clip-to-twice-the-bound", "The bound is taken for a radius of what may move.",
        "losses/record.cpp", "std::isinf(order) ? bound : shrunk(bound, dimension)",
        "2.0 * (std::isinf(order) ? bound : shrunk(bound, dimension))",
        "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "acceptance-with-the-inverse-ratio", "A coin stays with the inverse of its factor.",
        "mechanisms/switch_rule.cpp", "log_keep_ + log_stay_",
        "log_keep_ - log_stay_",
        "coupled:the_leader", "checks:likelihood",
    ),
    Mutation(
        "coin-without-its-forced-part", "The probability of a forced switch is dropped.",
        "mechanisms/switch_rule.cpp", "log_keep_ + log_stay_", "log_stay_",
        "coupled:the_leader", "checks:likelihood",
    ),
    Mutation(
        "one-stream-for-all", "The nonce of the generator forgets the stream.",
        "random/source.cpp", "(stream_ << 4)", "(stream_ & 0)",
        "draws:the_shared_source", "protocol:streams",
    ),
    Mutation(
        "radius-as-printed", "The radius of a norm's noise is Gamma(d/2, 2 sigma).",
        "noise/samplers.cpp", "«scale_» * std::sqrt(2.0 * gamma(",
        "std::sqrt(scale_)", "published:the_radius", "checks:law",
    ),
    Mutation(
        "proposal-thinned-too-little", "A draw between walls is kept too often far from the mean.",
        "samplers/truncated_normal.cpp",
        "0.5 * z * z <= source.exponential()",
        "0.25 * z * z <= source.exponential()",
        "draws:the_truncated", "checks:law",
    ),
    Mutation(
        "one-round-past-the-horizon", "The horizon is compared with one round too few.",
        "mechanisms/continual_sum.cpp", "rounds > horizon_ - round_",
        "rounds > horizon_ + 1 - round_", "state:the_wall", "checks:contract",
    ),
    Mutation(
        "bit-with-half-the-exponent", "e^(-epsilon/2) where e^(-epsilon) is the odds.",
        "local/randomizers.cpp",
        "(1.0 + «elementary::exp(-epsilon)»)", "elementary::exp(-2.0 * epsilon)",
        "local:the_bits", "local:exact_ratio",
    ),
    Mutation(
        "draws-that-do-not-advance", "A read leaves the position of the generator where it was.",
        "random/source.cpp", "  «from.position += count;»\n  return {", None,
        "sums:the_sum", "checks:replay",
    ),
    Mutation(
        "state-that-survives-an-alarm", "The sums of a test go on after its alarm.",
        "experts/shift_detector.cpp", "statistic_.reset();", None,
        "shift-detector", "checks:standard_audit",
    ),
    Mutation(
        "selection-that-survives-an-alarm", "An epoch goes on after the alarm that ends it.",
        "experts/shift_detector.cpp", "instance_.restart();", None,
        "shift-detector", "checks:standard_audit",
    ),
    Mutation(
        "one-fresh-draw-too-many", "A cap on switches allows one more.",
        "mechanisms/switch_rule.cpp", "switches_ >= settings_.max_switches",
        "switches_ > settings_.max_switches", "oblivious-tracker", "checks:standard_audit",
    ),
    Mutation(
        "one-switch-too-many", "The same cap, for decisions that are points.",
        "mechanisms/switch_rule.cpp", "switches_ >= settings_.max_switches",
        "switches_ > settings_.max_switches", "ctrl",
        "checks:standard_audit",
    ),
    Mutation(
        "one-alarm-too-many", "A threshold answers once more after its last alarm.",
        "mechanisms/above_threshold.cpp", "left_ = «settings_.alarms»",
        "settings_.alarms + 1", "above-threshold", "checks:standard_audit",
    ),
    Mutation(
        "half-the-forgetting", "Weights are shared at half the rate.",
        "experts/batch_share.cpp",
        "settings_.share_rate / static_cast<double>(n - 1)",
        "0.5 * settings_.share_rate / static_cast<double>(n - 1)",
        "batch-share", "checks:standard_audit",
    ),
    Mutation(
        "uncentred-for-an-even-number", "Sums of an even number of experts are not centred.",
        "experts/batch_share.cpp", "settings_.centered",
        "settings_.centered && n % 2 == 1", "batch-share", "checks:standard_audit",
    ),
    Mutation(
        "clock-that-stops-at-nan", "A record that is not finite does not move its arm's clock.",
        "bandits/high_dimensional_bandit.cpp", "model.skip(model.round())",
        "other != arm ? model.skip(model.round()) : void()", "high-dimensional-bandit",
        "checks:standard_audit",
    ),
    Mutation(
        "off-diagonal-counted-twice", "Packed products carry the factor 2, not its root.",
        "bandits/linucb.cpp", "kSqrtTwo * own", "2.0 * own",
        "linucb", "checks:standard_audit",
    ),
    Mutation(
        "off-diagonal-counted-twice-by-a-leader", "The same in a learner with a squared loss.",
        "oco/noisy_ftrl.cpp", "add_quadratic(clipped, y, settings_.vector_scale, add)",
        "add_quadratic(clipped, y, settings_.vector_scale, [&](double entry) {\n"
        "  std::size_t left = i, row = features.size();  // of the triangle\n"
        "  while (row > 0 && left >= row) left -= row--;\n"
        "  add(left == 0 || row == 0 ? entry : kSqrtTwo * entry);\n})",
        "noisy-ftrl", "checks:standard_audit",
    ),
    Mutation(
        "scale-without-the-batch", "Noise for a batch's mean is added to its sum.",
        "frank_wolfe/frank_wolfe.cpp",
        "static_cast<double>(settings_.batch) * weight()", "weight()", "polyhedral-frank-wolfe",
        "checks:standard_audit",
    ),
    Mutation(
        "noise-of-a-block-repeats", "All rounds of a block of a run get the noise of the first.",
        "mechanisms/continual_sum.cpp", "std::exchange(next_, next_ + width())",
        "next_", "noisy-ftrl", "checks:standard_audit",
    ),
    Mutation(
        "last-record-of-a-run-dropped", "The last of many records in one call is not added.",
        "oco/record_learner.cpp", "admit(label, !losses.empty())",
        "t > 0 && t + 1 == rounds ? 0.0 : admit(label, !losses.empty())",
        "tree-frank-wolfe", "checks:standard_audit",
    ),
    Mutation(
        "noise-shared-between-coordinates", "Entries beyond a block repeat those of the first.",
        "mechanisms/noise_process.cpp",
        "current_->fill(source, out)",
        "current_->fill(source, out), [&] {\n"
        "  for (std::size_t i = 0; i < out.size(); ++i)\n"
        "    if (i % d_ >= 16) out[i] = out[i - 16];\n}()",
        "continual-sum", "checks:standard_audit",
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
        print("| change | what went wrong | where | check | result |\n|---|---|---|---|---|")
        for number, each in enumerate(chosen):
            page.turn_on(number)
            found = _verdict(each) if number in compiled else "no build"
            check = each.check.split(":")[1]
            missed += [each.name] * (found != "noticed")
            print(f"| {each.name} | {each.story} | `{each.file}` | {check} | {found} |", flush=True)
    print(f"not noticed: {missed}; noticed in what is correct: {alarms}", file=sys.stderr)
    return int(bool(alarms or missed))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.bugs.compiled")
    parser.add_argument("--build", type=Path, default=Path("build/ed"), help="of C++, with Ninja")
    parser.add_argument("--only", action="append", help="name of a change; repeatable")
    return parser.parse_args(arguments)


def named(name: str) -> object:
    """Return what ``module:name`` is, in this folder."""
    module, attribute = name.split(":")
    return getattr(importlib.import_module(f"tests.audit.bugs.{module}"), attribute)


def look(subject: str, check: str) -> bool:
    """Whether a check notices something about a subject."""
    warnings.simplefilter("ignore")
    seen = named(subject)() if ":" in subject else subject  # type: ignore[operator]
    return bool(named(check)(seen))  # type: ignore[operator]


def _verdict(mutation: Mutation) -> str:
    """Return what a fork says, with the changes that are on."""
    found = forked(partial(look, mutation.subject, mutation.check), _LIMIT)
    return {True: "noticed", False: "silent", None: "timeout"}.get(found, "error")


if __name__ == "__main__":
    sys.exit(main())
