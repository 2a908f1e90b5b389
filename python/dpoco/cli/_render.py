"""Reports as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dpoco._validation import Fields, FloatArray
from dpoco.cli._shell import console, say, table

if TYPE_CHECKING:
    from dpoco.evaluation import Comparison, ComparisonRow, RunReport


_COLUMNS = 10  # largest number of displayed columns with entries out of range


_WORDS = {
    "beyond_participation": "beyond the rule of --rounds-per-person",
    "clipped": "shortened to feature_bound",
    "filled": "with a constant for a missing cell",
    "unlisted_category": "of a category that is not listed",
}


def describe_shares(shares: Mapping[str, float]) -> str:
    """Return the shares above 0."""
    return ", ".join(
        f"{100.0 * share:.3g} % {_WORDS.get(what, what.replace('_', ' '))}"
        for what, share in shares.items()
        if share > 0.0
    )


def _say_counted(played: int, counted: int) -> None:
    """Print what averages are over, if not over all rounds."""
    if counted < played:
        say(f"Averages are over the {counted:,} of {played:,} rounds whose data are not missing.")


def print_report(report: RunReport, files: Sequence[str], *, full: bool) -> None:
    """Print the results of a run, for whom it is private, and where the files are.

    In at most 20 lines, or in full: with regret, noise, columns, and the whole guarantee.
    """
    say(f"{report.stream['name']}: {_shape(report)}, {_learner(report)}")
    if full:
        _say_stream(report)
    say()
    console().print(_table(report, full=full))
    say()
    if full:
        _say_comparators(report)
    _say_outcome(report)
    if full:
        _say_noise(report)
        say(f"Speed: {report.timing['rounds_per_second']:,.0f} rounds per second.")
        _say_details(report)
    _say_files(files, full=full)


def describe_drift(choices: Sequence[Any]) -> str:
    """Return what the candidates of a forgetting learner show about drift; "" without candidates.

    Their estimated losses are computed from releases only, so the sentence may be published.
    """
    forgetful = [each for each in choices if each.half_life not in (None, math.inf)]
    if not forgetful:
        return ""
    # Two deviations in favour of no drift, so that noise alone rarely looks like drift.
    best = min(forgetful, key=lambda each: float(each.excess + 2.0 * each.deviation))
    if best.excess + 2.0 * best.deviation < 0.0:
        return (
            f"Drift was seen: with a half-life of {best.half_life:,.0f} rounds the estimated loss "
            f"was {-best.excess:.2g} less a round than without forgetting."
        )
    return "No drift was seen: the estimated losses of forgetting are not clearly smaller."


def describe_loss(estimate: Any) -> str:
    """Return an estimated loss with its error in publishable words; "" without an estimate."""
    if estimate is None:
        return ""
    error = 2.0 * estimate.deviation
    return (
        f"Estimated loss: {estimate.mean:.3g} a round, with noise of +-{error:.2g}, "
        f"over {estimate.rounds:,.0f} rounds (computed from releases: it may be published)."
    )


def describe_spread(covariance: FloatArray | None) -> str:
    """Return how much noise moves coefficients, in publishable words; "" without a covariance."""
    if covariance is None or not covariance.any():
        return ""
    # The truth without noise is within two deviations in nineteen of twenty cases.
    errors = 2.0 * covariance.diagonal() ** 0.5
    return (
        f"Noise in the coefficients: +-{errors.min():.2g} to +-{errors.max():.2g} of scaled "
        "features (computed from releases: it may be published; the sampling error of the "
        "records is not in it)."
    )


def _say_outcome(report: RunReport) -> None:
    """Print who is protected, the cost of privacy, and what was left out and why."""
    read = report.nonprivate_records
    _say_counted(read["records"], read["counted"])
    say(_protection(report))
    _say_people(report.settings)
    say(_cost(report))
    for name in ("drift", "estimated_loss", "covariance"):
        if report.settings.get(name):
            say(report.settings[name])
    for line in _left_out_lines(report):
        say(line)


def is_fit(report: RunReport) -> bool:
    """Return whether a report is of one-time fits."""
    return "records" in report.settings


def _shape(report: RunReport) -> str:
    """Return the size of a stream."""
    features = f"x {report.stream['dimension']} features"
    if is_fit(report):
        return f"one fit to {report.rounds:,} records {features}"
    shape = f"{report.rounds:,} rounds {features}"
    return shape + (f", continued after round {report.first_round:,}" if report.first_round else "")


def _learner(report: RunReport) -> str:
    """Return the name of the learner, and who chose it."""
    command = report.settings.get("command", {})
    chosen = report.settings.get("chosen", "")
    return f"auto: {chosen.partition(':')[0]}" if chosen else command.get("learner", "")


def _protection(report: RunReport) -> str:
    """Return the first line of the guarantee, its verdict, as a sentence."""
    line = report.guarantee_text.partition("\n")[0]
    # A verdict begins in lower case.
    return f"{line[0].upper()}{line[1:]}."


def _cost(report: RunReport) -> str:
    """Return the cost of privacy in words."""
    # Rounded as printed, so that "0.0000" is not called a cost.
    price = report.price_of_privacy
    unit = "loss a record" if is_fit(report) else "loss a round"
    if round(price, 4) > 0.0:
        return f"Privacy costs {price:.4f} {unit}."
    if round(price, 4) == 0.0:
        return f"Privacy costs less than 0.0001 {unit}."
    return (
        f"The private learner is ahead of the one without noise by {-price:.4f} {unit}: noise can "
        "make a learner more careful, and on few rounds it is chance."
    )


def _left_out_lines(report: RunReport) -> list[str]:
    """Return which rows taught nothing or were changed, and why."""
    read, rows = report.nonprivate_records, report.rows
    found = []
    left = [f"{rows['skipped']:,} were played before"] if rows.get("skipped") else []
    if rows.get("beyond_horizon"):
        left.append(f"{rows['beyond_horizon']:,} are beyond the horizon")
    if left:
        found.append(f"Rows left out: {', '.join(left)}.")
    shares = {name: share for name, share in read["shares"].items() if name != "empty" and share}
    reasons = {k: v for k, v in shares.items() if "missing" in k or k == "beyond_participation"}
    empty = read["records"] - read["learned"]
    if empty:
        why = f" ({describe_shares(reasons)})" if reasons else ""
        found.append(f"Records that taught nothing: {empty:,} of {read['records']:,}{why}.")
    changed = {k: share for k, share in shares.items() if not empty or k not in reasons}
    if changed:
        found.append(
            f"Records that were changed to keep to their bounds: {describe_shares(changed)}."
        )
    return found or ["All records were as declared."]


def _say_files(files: Sequence[str], *, full: bool) -> None:
    more = "" if full else " --full prints everything."
    say(f"Written: {'; '.join(files)}")
    say(f"From raw records: for evaluation, not for publication.{more}")


_MEASURES = {"error_rate": ("error rate", ".1%"), "auc": ("AUC", ".3f"), "r2": ("R^2", ".3f")}


def _table(report: RunReport, *, full: bool) -> Table:
    """Return the results of all players with the available measures; in full, with regret."""
    reached, count = report.accuracy, len(report.private.average_losses)
    measures = [name for name in _MEASURES if name in reached.get("private", {})]
    spread = [f"range of {count} runs"] if count > 1 else []
    regrets = ["regret", "switches"] if full else []
    scores = [_MEASURES[name][0] for name in measures]
    made = table([""], ["average loss", *spread, *scores, *regrets])

    def add(name: str, losses: Sequence[float], regret: float, switches: float) -> None:
        cells = [_decimal(statistics.median(losses)), *([_range(losses)] if spread else [])]
        own = reached.get(name, {})
        cells += [format(own[each], _MEASURES[each][1]) if each in own else "" for each in measures]
        changes = [f"{round(regret):,}", f"{switches:,.0f}"]  # no "-0"
        made.add_row(name, *cells, *changes[: len(regrets)])

    for name, runs in (("private", report.private), ("without noise", report.nonprivate)):
        add(name, runs.average_losses, runs.regret, statistics.median(runs.switches))
    fixed = report.best_fixed
    others = {"best fixed decision": fixed, "best constant prediction": report.best_constant}
    for name, other in others.items():
        add(name, [other["average_loss"]], other["total_loss"] - fixed["total_loss"], 0)
    return made


def _decimal(value: float) -> str:
    """Return a number with four decimals, without a sign in front of zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def _say_comparators(report: RunReport) -> None:
    """Print the comparator of regret, if needed, and where the noiseless learner starts."""
    if is_fit(report):
        say("Losses of the released decision on the records of the fit, which saw all of them.")
    if report.first_round and not report.rows["skipped"]:
        say("Without noise: a learner that starts with these rows.")


def _say_noise(report: RunReport) -> None:
    noise = report.noise
    if noise["scale"] is not None:
        released = noise["released"]
        more = "" if released is None else f", {released:.4g} on the noisiest released sum"
        say(f"Noise: scale {noise['scale']:.4g} per draw{more}.")
    if noise["paper_scale"] is not None:
        say(
            f"Published constants, an update a round: {noise['paper_scale']:.4g} "
            f"({noise['scale_ratio']:.1f} times) and {noise['paper_released']:.4g} "
            f"({noise['released_ratio']:.1f} times)."
        )


def _range(values: Sequence[float]) -> str:
    """Return the range over the repetitions; empty if there is only one."""
    low, high = min(values), max(values)
    return f"{_decimal(low)}-{_decimal(high)}" if low < high else ""


def _say_stream(report: RunReport) -> None:
    stream = report.stream
    say(f"  {stream['description']}; scaling: {stream['scaling']}")
    if "chosen" in report.settings:
        say(f"  auto: {report.settings['chosen']}")


def _say_details(report: RunReport) -> None:
    """Print how columns were read, with shares above 0, and the rest of the guarantee."""
    ranges = report.stream.get("ranges", {})
    # Columns without a declared range and without a share above 0 need no mention.
    odd = [
        (name, shares)
        for name, shares in report.nonprivate_records["columns"].items()
        if any(shares.values()) or name in ranges
    ]
    # The columns with most changes come first, because their range is probably wrong.
    odd.sort(key=lambda column: -max(column[1].values()))
    for name, shares in odd[:_COLUMNS]:
        declared = "" if name not in ranges else " in [{:g}, {:g}]".format(*ranges[name])
        say(f"  {name}{declared}: {describe_shares(shares) or 'all as declared'}")
    if len(odd) > _COLUMNS:
        say(f"  and {len(odd) - _COLUMNS} more columns: see report.json")
    say()
    say(report.guarantee_text.partition("\n")[2])
    say()


def _say_people(settings: Fields) -> None:
    """Print who enforces the rule for people, if the guarantee is for one person."""
    rule = settings.get("participation")
    if rule is not None and rule["enforced"]:
        say("People: the learner plays records beyond the rule as empty ones.")
    elif rule is not None:
        say("People: the rule is not enforced, because the stream does not name its people.")


def print_comparison(result: Comparison, files: Sequence[str]) -> None:
    """Print the table of a comparison and where the files are, to standard output."""
    stream, repeats = result.stream, result.settings["repeats"]
    left = stream["beyond_horizon"]
    more = f"; {left:,} rows left out beyond the horizon" if left else ""
    say(f"{stream['name']}: {result.settings['horizon']:,} rounds, {repeats} runs each{more}")
    if result.settings["chosen"]:
        say(f"  auto: {result.settings['chosen']}")
    say()
    online = [row for row in result.rows if row.access == "online"]
    if online:
        console().print(_rows(online, offline=False))
        say()
        value = result.comparator["average_loss"]
        say(f"Regret is against the {result.comparator['name']}: average loss {value:.4f}.")
    _say_counted(stream["rounds"], result.settings["counted"])
    beyond = {name: stream[name] for name in ("beyond_participation",) if name in stream}
    if beyond:
        say(f"  nothing was learned from the {describe_shares(beyond)}")
    fits = [row for row in result.rows if row.access == "offline"]
    if fits:
        say(
            "One fit to all records, offline: the loss of its decision on the records it was "
            "fitted to; no regret."
        )
        say()
        console().print(_rows(fits, offline=True))
        say()
        if not online:
            value = result.comparator["average_loss"]
            say(f"The {result.comparator['name']} has average loss {value:.4f}.")
    # They are equal in everything that is printed here, so we print one of them.
    for g in [row.guarantee for row in result.rows if row.guarantee and row.budget][:1]:
        about = f"({g['change']}, seen by {g['view']})"
        say(f"Same budget, rounds and change {about} for every learner.")
        if g.get("person"):
            say(f"The budget is for all rounds of a person, at most {g['person'][0]}.")
    _say_people(result.settings)
    for row in result.rows:
        if row.refused is not None:
            say(f"{row.learner}: {row.refused}")
    _say_files(files, full=True)


def _rows(rows: Sequence[ComparisonRow], *, offline: bool) -> Table:
    """Return the table of some rows."""
    titles = ["epsilon", "delta", "average loss", "range"]
    if not offline:
        titles += ["regret", "switches"]
    made = table(["learner"], titles)
    for row in rows:
        budget = row.budget
        cells = [row.learner]
        cells += ["none", ""] if budget is None else [
            f"{budget['epsilon']:g}", f"{budget['delta']:.2g}"
        ]  # fmt: skip
        if row.average_loss is None:
            cells.append("refused")
        else:
            cells += [f"{statistics.median(row.average_losses):.4f}", _range(row.average_losses)]
        if row.regret is not None:
            cells += [f"{row.regret:,.1f}", f"{statistics.median(row.switches):,.0f}"]
        # A refused learner has no numbers, so its row is filled up.
        made.add_row(*[*cells, "", "", ""][: len(titles) + 1])
    return made
