"""Reports as text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from dpoco.evaluation import Comparison, RunReport

__all__ = ["print_comparison", "print_report"]

_WIDTH = 100


def print_report(report: RunReport, files: Sequence[str]) -> None:
    """Print the numbers, the guarantee and where the files are, to standard output."""
    console = Console()
    if not console.is_terminal:  # a file or a pipe has no width to respect
        console = Console(width=_WIDTH)
    stream, noise = report.stream, report.noise
    rounds = report.rounds

    def say(text: str = "") -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    resumed = f", continued after round {report.first_round:,}" if report.first_round else ""
    experts = report.domain.get("type") == "experts"
    kind = "experts" if experts else "features"
    say(f"{stream['name']}: {rounds:,} rounds x {stream['dimension']} {kind}{resumed}")
    say(f"  {stream['description']}; scaling: {stream['scaling']}")
    say()
    console.print(_table(report))
    if len(report.private.average_losses) > 1:
        say(
            f"  private: median and range of {len(report.private.average_losses)} repetitions, "
            "each a release of its own"
        )
    say()
    say(f"Price of privacy  {report.price_of_privacy:.4f} loss per round")
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
    say()
    say(report.guarantee_text)
    say()
    say("This report is computed from raw records: it is for evaluation, not for publication.")
    for path in files:
        say(f"Written: {path}")


def _table(report: RunReport) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("", no_wrap=True)
    spread = len(report.private.average_losses) > 1
    for title in ("average loss", *(["range"] if spread else []), "regret", "switches"):
        table.add_column(title, justify="right", no_wrap=True)

    def add(name: str, loss: float, regret: float, switches: float, between: str = "") -> None:
        ranges = [between] if spread else []
        table.add_row(name, f"{loss:.4f}", *ranges, f"{regret:,.0f}", f"{switches:,.0f}")

    for name, runs in (("private", report.private), ("without noise", report.nonprivate)):
        low, high = min(runs.average_losses), max(runs.average_losses)
        add(
            name,
            runs.average_loss,
            runs.regret,
            runs.summary()["switches"]["median"],
            f"{low:.4f}-{high:.4f}" if low < high else "",
        )
    fixed, constant = report.best_fixed, report.best_constant
    experts = report.domain.get("type") == "experts"
    add("best expert" if experts else "best fixed decision", fixed["average_loss"], 0, 0)
    add(
        constant.get("name", "best constant prediction"),
        constant["average_loss"],
        constant["total_loss"] - fixed["total_loss"],
        0,
    )
    return table


def print_comparison(result: Comparison, files: Sequence[str]) -> None:
    """Print the table of a comparison and where the files are, to standard output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)

    def say(text: str = "") -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    stream, repeats = result.stream, result.settings["repeats"]
    say(f"{stream['name']}: {result.settings['horizon']:,} rounds, {repeats} runs each")
    say()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("learner", no_wrap=True)
    for title in ("epsilon", "delta", "average loss", "range", "regret", "switches"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in result.rows:
        budget = row.budget
        size = ("none", "") if budget is None else (
            f"{budget['epsilon']:g}", f"{budget['delta']:.2g}"
        )  # fmt: skip
        if row.average_loss is None or row.regret is None:
            table.add_row(row.learner, *size, "refused", "", "", "")
            continue
        low, high = min(row.average_losses), max(row.average_losses)
        middle = sorted(row.switches)[len(row.switches) // 2]
        table.add_row(
            row.learner, *size, f"{row.average_loss:.4f}",
            f"{low:.4f}-{high:.4f}" if low < high else "", f"{row.regret:,.1f}", f"{middle:,}",
        )  # fmt: skip
    console.print(table)
    say()
    say(
        f"Regret is against the {result.comparator['name']}: average loss "
        f"{result.comparator['average_loss']:.4f}."
    )
    relations = {row.guarantee["relation"] for row in result.rows if row.guarantee and row.budget}
    say(f"Same budget, rounds and relation ({', '.join(sorted(relations))}) for every learner.")
    for row in result.rows:
        if row.refused is not None:
            say(f"{row.learner}: {row.refused}")
    say("Computed from raw records: for evaluation, not for publication.")
    for path in files:
        say(f"Written: {path}")
