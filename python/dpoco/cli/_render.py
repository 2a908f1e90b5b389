"""Reports as text."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from dpoco.cli._shell import console, say, table
from dpoco.evaluation import FitReport

if TYPE_CHECKING:
    from dpoco.evaluation import Comparison, ComparisonRow, RunReport


_COLUMNS = 10  # that are shown of those with entries out of range


_WORDS = {
    "beyond_participation": "beyond the rule of --rounds-per-person",
    "filled": "with a constant for a missing cell",
    "unlisted_category": "of a category that is not listed",
}


def shares_in_words(shares: Mapping[str, float]) -> str:
    """Return the shares above 0."""
    return ", ".join(
        f"{100.0 * share:.3g} % {_WORDS.get(what, what.replace('_', ' '))}"
        for what, share in shares.items()
        if share > 0.0
    )


def _say_counted(played: int, counted: int) -> None:
    """Say what averages are over, if not over all rounds."""
    if counted < played:
        say(f"Averages are over the {counted:,} of {played:,} rounds whose data are not missing.")


def print_report(report: RunReport, files: Sequence[str], *, full: bool) -> None:
    """Print what a run reached, for whom it is private, and where the files are.

    In at most 20 lines, or in full: with the noise, the columns, and the guarantee as a whole.
    """
    if full:
        _print_all(report, files)
        return
    say(f"{report.stream['name']}: {_shape(report)}, {_learner(report)}")
    say()
    console().print(_short_table(report))
    say()
    read = report.nonprivate_records
    _say_counted(read["records"], read["counted"])
    say(_protection(report))
    _say_people(report.settings)
    say(_cost(report))
    for line in _dropped(report):
        say(line)
    _say_short_end(files)


def _shape(report: RunReport) -> str:
    """Return the size of a stream."""
    stream, arms = report.stream, report.domain.get("arms")
    shape = f"{report.rounds:,} rounds"
    if "loss" in stream:  # of values that decisions should be near
        shape += f", {stream['loss']}"
    else:
        kind = "experts" if report.domain.get("type") == "experts" else "features"
        shape += f" x {stream['dimension']} {kind}"
    shape += "" if arms is None else f", {arms} arms"
    return shape + (f", continued after round {report.first_round:,}" if report.first_round else "")


def _learner(report: RunReport) -> str:
    """Return the name of the learner, and who chose it."""
    command = report.settings.get("command", {})
    chosen = report.settings.get("chosen", "")
    return f"auto: {chosen.partition(':')[0]}" if chosen else command.get("learner", "")


def _protection(report: RunReport | FitReport) -> str:
    """Return the first line of the guarantee, its verdict, as a sentence."""
    line = report.guarantee_text.partition("\n")[0]
    return f"{line[0].upper()}{line[1:]}."


def _cost(report: RunReport | FitReport) -> str:
    """Return what privacy costs, in words."""
    price, unit = report.price_of_privacy, "loss a record"
    if not isinstance(report, FitReport):
        unit = "reward a round" if report.domain.get("arms") else "loss a round"
    if round(price, 4) > 0.0:
        return f"Privacy costs {price:.4f} {unit}."
    if round(price, 4) == 0.0:
        return f"Privacy costs less than 0.0001 {unit}."
    return (
        f"The private learner is ahead of the one without noise by {-price:.4f} {unit}: noise can "
        "make a learner more careful, and on few rounds it is chance."
    )


def _dropped(report: RunReport | FitReport) -> list[str]:
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
        why = f" ({shares_in_words(reasons)})" if reasons else ""
        found.append(f"Records that taught nothing: {empty:,} of {read['records']:,}{why}.")
    changed = {name: share for name, share in shares.items() if name not in reasons}
    if changed:
        found.append(
            f"Records that were changed to keep to their bounds: {shares_in_words(changed)}."
        )
    return found or ["All records were as declared."]


def _say_short_end(files: Sequence[str]) -> None:
    say(f"Written: {'; '.join(files)}")
    say("From raw records: for evaluation, not for publication. --full prints everything.")


_MEASURES = {"error_rate": ("error rate", ".1%"), "auc": ("AUC", ".3f"), "r2": ("R^2", ".3f")}


def _short_table(report: RunReport) -> Table:
    """Return what all players reached, with the measures that there are."""
    arms = report.domain.get("type") == "policies"
    # Losses are the largest reward minus the reward.
    top, sign = (report.loss["reward_range"][1], -1.0) if arms else (0.0, 1.0)
    reached = report.accuracy
    shown = [name for name in _MEASURES if name in reached.get("private", {})]
    runs = report.private.average_losses
    spread = [f"range of {len(runs)} runs"] if len(runs) > 1 else []
    titles = ["average reward" if arms else "average loss", *spread]
    made = table([""], [*titles, *(_MEASURES[name][0] for name in shown)])
    players: list[tuple[str, Sequence[float]]] = [
        ("private", runs),
        ("without noise", report.nonprivate.average_losses),
        (report.best_fixed.get("name", "best fixed decision"), [report.best_fixed["average_loss"]]),
        (
            report.best_constant.get("name", "best constant prediction"),
            [report.best_constant["average_loss"]],
        ),
        *((other["name"], [other["average_loss"]]) for other in report.others),
    ]
    for name, losses in players:
        values = [top + sign * loss for loss in losses]
        cells = [_decimal(statistics.median(values)), *([_range(values)] if spread else [])]
        own = reached.get(name, {})
        cells += [format(own[each], _MEASURES[each][1]) if each in own else "" for each in shown]
        made.add_row(name, *cells)
    return made


def _decimal(value: float) -> str:
    """Return a number with four decimals, without a sign in front of zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def _print_all(report: RunReport, files: Sequence[str]) -> None:
    """Print the numbers, the guarantee and where the files are, to standard output."""
    noise, arms = report.noise, report.domain.get("arms")
    _say_stream(report, _shape(report))
    if "chosen" in report.settings:
        say(f"  auto: {report.settings['chosen']}")
    if report.first_round and not report.rows["skipped"]:
        say("  without noise: a learner that starts with these rows")
    say()
    console().print(_table(report))
    read = report.nonprivate_records
    _say_counted(read["records"], read.get("counted", read["records"]))
    _say_repeats(len(report.private.average_losses))
    if arms is not None:
        say("  regret is against the least-squares policy, which is fitted to the rewards of all")
        say("  arms in hindsight and need not be the best linear one")
    if report.loss.get("type") == "Lipschitz losses":
        say(
            "  regret is against the best point of the learner's net; no decision is better by "
            f"more than {report.best_fixed['gap']:.4g} a round"
        )
    say()
    unit = "loss" if arms is None else "reward"
    say(f"Price of privacy  {_decimal(report.price_of_privacy)} {unit} per round")
    if noise["scale"] is not None:
        released = noise["released"]
        more = "" if released is None else f", {released:.4g} on the noisiest released sum"
        say(f"Noise             scale {noise['scale']:.4g} per draw{more}")
    if noise["paper_scale"] is not None:
        say(
            f"                  published constants, an update a round: "
            f"{noise['paper_scale']:.4g} ({noise['scale_ratio']:.1f} times) and "
            f"{noise['paper_released']:.4g} ({noise['released_ratio']:.1f} times)"
        )
    say(f"Speed             {report.timing['rounds_per_second']:,.0f} rounds per second")
    _say_end(report, files)


def print_fit(report: FitReport, files: Sequence[str], *, full: bool) -> None:
    """Print what one-time fits reached, the guarantee and where the files are."""
    stream, best = report.stream, report.best_fixed["average_loss"]
    shape = f"one fit to {stream['rounds']:,} records x {stream['dimension']} features"
    if full:
        _say_stream(report, shape)
    else:
        say(f"{stream['name']}: {shape}")
    say()
    shown = table([""], ["average loss", "range", "above the best"])
    rows = {
        "private": report.private,
        "without noise": report.nonprivate,
        "best decision": (best,),
        "predicting zero": (report.zero["average_loss"],),
    }
    for name, values in rows.items():
        middle = statistics.median(values)
        shown.add_row(name, _decimal(middle), _range(values), _decimal(middle - best))
    console().print(shown)
    if not full:
        say()
        _say_counted(report.nonprivate_records["records"], report.nonprivate_records["counted"])
        say(_protection(report))
        say(_cost(report))
        for line in _dropped(report):
            say(line)
        _say_short_end(files)
        return
    say("  losses of the released decision on the records of the fit; no rounds, so no regret")
    _say_counted(report.nonprivate_records["records"], report.nonprivate_records["counted"])
    _say_repeats(len(report.private))
    say()
    say(f"Price of privacy  {_decimal(report.price_of_privacy)} loss per record")
    say(f"Time              {statistics.mean(report.timing['private_seconds']):.2g} s a fit")
    _say_end(report, files)


def _range(values: Sequence[float]) -> str:
    """Return the range of repetitions, nothing of one."""
    low, high = min(values), max(values)
    return f"{_decimal(low)}-{_decimal(high)}" if low < high else ""


def _say_repeats(count: int) -> None:
    if count > 1:
        say(f"  private: median and range of {count} repetitions, each a release of its own")


def _say_stream(report: RunReport | FitReport, shape: str) -> None:
    stream, rows = report.stream, report.rows
    say(f"{stream['name']}: {shape}")
    say(f"  {stream['description']}; scaling: {stream['scaling']}")
    if "rewards" in stream:
        say(f"  rewards: {stream['rewards']}")
    if getattr(report, "first_round", 0) or rows["beyond_horizon"]:
        say(
            f"  rows: {rows['skipped']:,} skipped, {rows['played']:,} played, "
            f"{rows['beyond_horizon']:,} left out beyond the horizon"
        )


def _say_end(report: RunReport | FitReport, files: Sequence[str]) -> None:
    """Say how records were read, shares above 0, what is guaranteed, and where the files are."""
    read = report.nonprivate_records
    say(f"Records           {shares_in_words(read['shares']) or 'all as declared'}")
    ranges = report.stream.get("ranges", {})
    odd = [
        (name, shares)
        for name, shares in read["columns"].items()
        if any(shares.values()) or name in ranges
    ]
    odd.sort(key=lambda column: -max(column[1].values()))
    for name, shares in odd[:_COLUMNS]:
        declared = "" if name not in ranges else " in [{:g}, {:g}]".format(*ranges[name])
        say(f"                  {name}{declared}: {shares_in_words(shares) or 'all as declared'}")
    if len(odd) > _COLUMNS:
        say(f"                  and {len(odd) - _COLUMNS} more columns: see report.json")
    say()
    say(report.guarantee_text)
    _say_people(report.settings)
    say()
    notice = "This report is computed from raw records: it is for evaluation, not for publication."
    _say_files(notice, files)


def _say_people(settings: Mapping[str, Any]) -> None:
    """Say who sees to it that people keep to the rule that the guarantee is for, if it has one."""
    rule = settings.get("participation")
    if rule is not None and rule["enforced"]:
        say("People: the learner plays records beyond the rule as empty ones.")
    elif rule is not None:
        say("People: nobody enforces the rule here, since the stream does not name anybody.")


def _say_files(notice: str, files: Sequence[str]) -> None:
    say(notice)
    for path in files:
        say(f"Written: {path}")


def _table(report: RunReport) -> Table:
    spread = len(report.private.average_losses) > 1
    arms = report.domain.get("type") == "policies"
    # Losses are the largest reward minus the reward.
    top, sign = (report.loss["reward_range"][1], -1.0) if arms else (0.0, 1.0)
    titles = ["average reward" if arms else "average loss", *(["range"] if spread else []),
              "regret", *([] if arms else ["switches"])]  # fmt: skip
    made = table([""], titles)

    def add(name: str, losses: Sequence[float], regret: float, switches: float) -> None:
        shown = [top + sign * loss for loss in losses]
        ranges = [_range(shown)] if spread else []
        changes = [] if arms else [f"{switches:,.0f}"]
        middle = _decimal(statistics.median(shown))
        made.add_row(name, middle, *ranges, f"{round(regret):,}", *changes)  # no "-0"

    for name, runs in (("private", report.private), ("without noise", report.nonprivate)):
        add(name, runs.average_losses, runs.regret, statistics.median(runs.switches))
    fixed = report.best_fixed
    others = (
        {"name": "best fixed decision", **fixed},
        {"name": "best constant prediction", **report.best_constant},
        *report.others,
    )
    for other in others:
        add(other["name"], [other["average_loss"]], other["total_loss"] - fixed["total_loss"], 0)
    return made


def print_comparison(result: Comparison, files: Sequence[str]) -> None:
    """Print the table of a comparison and where the files are, to standard output."""
    stream, repeats = result.stream, result.settings["repeats"]
    left = stream["beyond_horizon"]
    more = f"; {left:,} rows left out beyond the horizon" if left else ""
    say(f"{stream['name']}: {result.settings['horizon']:,} rounds, {repeats} runs each{more}")
    if result.settings["chosen"]:
        say(f"  auto: {result.settings['chosen']}")
    say()
    top = result.comparator.get("largest_reward")
    online = [row for row in result.rows if row.access == "online"]
    if online:
        console().print(_rows(online, top, offline=False))
        say()
        value = result.comparator["average_loss"]
        measure = "loss" if top is None else "reward"
        say(
            f"Regret is against the {result.comparator['name']}: average {measure} "
            f"{value if top is None else top - value:.4f}."
        )
    _say_counted(stream["rounds"], result.settings["counted"])
    beyond = {name: stream[name] for name in ("beyond_participation",) if name in stream}
    if beyond:
        say(f"  nothing was learned from the {shares_in_words(beyond)}")
    fits = [row for row in result.rows if row.access == "offline"]
    if fits:
        say(
            "One fit to all records, offline: the loss of its decision on the records it was "
            "fitted to; no regret."
        )
        say()
        console().print(_rows(fits, None, offline=True))
        say()
        if not online:
            value = result.comparator["average_loss"]
            say(f"The {result.comparator['name']} has average loss {value:.4f}.")
    for g in [row.guarantee for row in result.rows if row.guarantee and row.budget][:1]:
        about = f"({g['change']}, seen by {g['view']})"
        say(f"Same budget, rounds and change {about} for every learner.")
        if g.get("person"):
            say(f"The budget is for all rounds of a person, at most {g['person'][0]}.")
    _say_people(result.settings)
    for row in result.rows:
        if row.refused is not None:
            say(f"{row.learner}: {row.refused}")
    _say_files("Computed from raw records: for evaluation, not for publication.", files)


def _rows(rows: Sequence[ComparisonRow], top: float | None, *, offline: bool) -> Table:
    """Return the table of some rows; `top` is the largest reward, where losses are of arms."""
    measure = "average loss" if top is None else "average reward"
    titles = ["epsilon", "delta", measure, "range"]
    if not offline:
        titles += ["regret", *(["switches"] if top is None else [])]
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
            values = [v if top is None else top - v for v in row.average_losses]
            cells += [f"{statistics.median(values):.4f}", _range(values)]
        if row.regret is not None:
            cells += [f"{row.regret:,.1f}", f"{statistics.median(row.switches):,.0f}"]
        made.add_row(*[*cells, "", "", ""][: len(titles) + 1])
    return made
