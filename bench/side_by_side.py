"""Regenerate the tables and the figure of docs/comparison.md: see that page.

Usage: python bench/side_by_side.py [--case NAME ...] [--write] [--json FILE]

Without --write the tables are printed only. Needs ``pip install "dpoco[bench]"``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

from compare import THREADS
from pages import machine_line, replace_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "comparison.md"
FIGURE = ROOT / "docs" / "figures" / "comparison.svg"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Our learners next to those that users could run today."
    )
    parser.add_argument("--case", nargs="+", metavar="NAME", help="these cases only")
    parser.add_argument("--write", action="store_true", help="update the page and its figure")
    parser.add_argument("--draw", action="store_true", help="only the figure, from the page")
    parser.add_argument("--json", metavar="FILE", help="write machine facts and lines to FILE")
    options = parser.parse_args(arguments)
    for name in THREADS:
        os.environ[name] = "1"

    import measurement
    import side_bandits
    import side_convex
    import side_experts
    import side_figure
    import side_measure

    import dpoco

    if options.draw:
        side_figure.draw(side_figure.read_tables(PAGE.read_text(encoding="utf-8")), FIGURE)
        return 0
    cases = side_convex.CASES | side_experts.CASES | side_bandits.CASES
    names = options.case or list(cases)
    unknown = sorted(set(names) - set(cases))
    if unknown:
        parser.error(f"unknown cases {unknown}; there are {list(cases)}")
    if options.write and options.case:
        parser.error("--write needs all cases: the figure shows them all")
    # Some of these streams are too short for their budget: the tables show it.
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    page = PAGE.read_text(encoding="utf-8") if options.write else ""
    tables = []
    start = time.process_time()
    for name in names:
        table = side_measure.measure(cases[name]())
        tables.append(table)
        text = f"**{table.title}**\n\n{side_measure.markdown(table)}\n"
        print(text, flush=True)
        if options.write:
            page = replace_table(page, name, text)
    facts = measurement.machine_facts()
    print(f"{machine_line(facts)} {time.process_time() - start:.0f} s of CPU time in all.")
    if options.write:
        page = replace_table(page, "machine", machine_line(facts))
        side_figure.draw(tables, FIGURE)
        PAGE.write_text(page, encoding="utf-8")
    if options.json:
        report = {"machine": facts, "tables": [side_measure.as_dict(table) for table in tables]}
        Path(options.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
