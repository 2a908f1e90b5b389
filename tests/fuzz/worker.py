"""One process of cases: bounded memory, a watchdog, and the name of the present case on disk."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import random
import re
import resource
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz import calls, engines, records, states

__all__ = ["FOUND", "cases", "work"]

FOUND = 3  # exit status; an exception in the fuzzer itself gives 1

_SPARE_BYTES = 2**30  # what a case may take beyond what the process has
_LONGEST_CASE = 60.0  # seconds; under sanitizers everything takes ten times longer
_CAMPAIGNS = {"states": states, "calls": calls, "records": records, "engines": engines}

Case = Callable[[random.Random], None]


def cases() -> dict[str, Case]:
    """Return all subjects: name to a function that runs one case, or raises `AssertionError`."""
    return {
        f"{campaign}/{name}": run
        for campaign, module in _CAMPAIGNS.items()
        for name, run in module.subjects().items()
    }


def work(options: argparse.Namespace) -> int:
    """Run cases until the time is over; `FOUND` if any of them found something."""
    warnings.simplefilter("ignore")
    subjects = {name: run for name, run in cases().items() if options.match in name}
    position = os.open(options.worker, os.O_CREAT | os.O_WRONLY, 0o600)
    slow = _sanitized()
    if not slow:
        _bound_memory()
    end = time.monotonic() + options.seconds
    done = found = 0
    for name in _names(subjects, options):
        if time.monotonic() >= end:
            break
        os.pwrite(position, name.ljust(200).encode(), 0)
        faulthandler.dump_traceback_later(_LONGEST_CASE * (10 if slow else 1), exit=True)
        try:
            subjects[name.rpartition("/")[0]](random.Random(f"{options.seed} {name}"))
        except Exception as error:
            found += 1
            _report(name, options.seed, error)
        done += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{done} cases of {len(subjects)} subjects, {found} findings", flush=True)
    return FOUND if found else 0


def _names(subjects: dict[str, Case], options: argparse.Namespace) -> Iterator[str]:
    """Yield the names of cases, one of each subject in turn, those after `options.after`."""
    if options.case:
        return iter([options.case])
    numbers = range(options.cases)
    names = (f"{name}/{number}" for number in numbers for name in subjects)
    if options.after:
        names = itertools.dropwhile(lambda name: name != options.after, names)
        next(names, None)
    return iter(names)


def _sanitized() -> bool:
    maps = Path("/proc/self/maps")
    return maps.exists() and re.search(r"lib(asan|tsan)", maps.read_text()) is not None


def _bound_memory() -> None:
    """Let the address space grow by a gigabyte from here: a header may lie about sizes."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        size = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _SPARE_BYTES, resource.RLIM_INFINITY))


def _report(name: str, seed: int, error: Exception) -> None:
    text = "".join(traceback.format_exception(error)[-6:])
    print(f"FOUND {name} (--seed {seed})\n{text}", flush=True)
