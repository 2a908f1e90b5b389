"""Interleaved CPU-time measurement, and the table it prints."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import dpoco

Action = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` None: for information, no claim.

    `value` is the median ratio theirs / ours, a rate, or a size, as `unit` says.
    """

    group: str
    name: str
    instruction_set: str
    value: float
    unit: str
    target: float | None = None
    low: float | None = None
    high: float | None = None
    ours_ns: float | None = None
    theirs_ns: float | None = None
    against: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.value >= self.target

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def cpu_seconds(action: Action) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def available_sets() -> list[str]:
    """Instruction sets of this machine and build, best first."""
    found = []
    for name in ("avx512", "avx2", "baseline"):
        try:
            found.append(dpoco.random.select_instruction_set(name))
        except ValueError:
            continue
    dpoco.random.select_instruction_set("auto")
    return found


def compare(
    group: str,
    name: str,
    ours: Action,
    theirs: Action,
    *,
    against: str,
    units: int,
    pairs: int,
    instruction_set: str,
    target: float | None,
) -> Row:
    """Alternate ours and theirs; the value is the median of the pairwise ratios theirs / ours."""
    dpoco.random.select_instruction_set(instruction_set)
    ours()  # caches, pages and compilers warm
    theirs()
    times = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(pairs)]
    dpoco.random.select_instruction_set("auto")
    ratios = [b / a for a, b in times]
    return Row(
        group,
        name,
        instruction_set,
        statistics.median(ratios),
        "x",
        target,
        min(ratios),
        max(ratios),
        statistics.median(a for a, _ in times) / units * 1e9,
        statistics.median(b for _, b in times) / units * 1e9,
        against,
    )


def rate(
    group: str,
    name: str,
    action: Action,
    *,
    units: int,
    repetitions: int,
    target: float | None,
    unit: str = "rounds/s",
) -> Row:
    """Units per second of CPU time: median, lowest and highest of the repetitions."""
    best = dpoco.random.instruction_set()
    action()
    rates = [units / cpu_seconds(action) for _ in range(repetitions)]
    value = statistics.median(rates)
    return Row(group, name, best, value, unit, target, min(rates), max(rates), ours_ns=1e9 / value)


def cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def load() -> float | None:
    """Runnable processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def machine_facts() -> dict[str, Any]:
    versions = {"python": platform.python_version()}
    for package in ("dpoco", "numpy", "numba"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "built in place" if package == "dpoco" else "not installed"
    sets = available_sets()
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "instruction_set": sets[0],
        "instruction_sets": sets,
        "versions": versions,
    }


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "x":
        return f"{value:.2f}"
    return f"{value:,.0f}"


def markdown(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [
        f"{facts['cpu']}, {facts['cores']} cores, best instruction set {facts['instruction_set']}; "
        f"{versions}; load average before and after: {facts['load_average']}",
    ]
    if facts["quick"]:
        lines.append("**Smoke run: inputs are too small for the numbers to mean anything.**")
    group = None
    for row in rows:
        if row.group != group:
            group = row.group
            lines += [
                "",
                f"### {group}",
                "",
                "| case | instruction set | ours ns | theirs ns | theirs | result | min - max "
                "| target | met |",
                "|---|---|--:|--:|---|--:|--:|--:|---|",
            ]
        span = "" if row.low is None else f"{_number(row.low, row.unit)} - "
        span += _number(row.high, row.unit)
        cells = [
            row.name,
            row.instruction_set,
            "" if row.ours_ns is None else f"{row.ours_ns:,.1f}",
            "" if row.theirs_ns is None else f"{row.theirs_ns:,.1f}",
            row.against,
            f"{_number(row.value, row.unit)} {row.unit}",
            span,
            "" if row.target is None else f">= {_number(row.target, row.unit)}",
            {None: "", True: "yes", False: "**no**"}[row.met],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    claims = [row for row in rows if row.target is not None]
    lines += ["", f"{sum(bool(row.met) for row in claims)} of {len(claims)} targets met."]
    return "\n".join(lines)
