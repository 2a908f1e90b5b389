"""Compare dpoco with what its users would write with NumPy or Numba: see bench/README.md.

Usage: python bench/compare.py [--quick] [--pairs N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys

# Read by the libraries when they load, so set before anything imports NumPy.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of dpoco against NumPy and Numba.")
    parser.add_argument(
        "--quick", action="store_true", help="smoke run on small inputs: its numbers mean nothing"
    )
    parser.add_argument(
        "--pairs", type=int, default=11, metavar="N", help="interleaved repetitions, at least 7"
    )
    parser.add_argument("--json", metavar="FILE", help="write machine facts and rows to FILE")
    options = parser.parse_args(arguments)
    if options.pairs < 7:
        parser.error("--pairs must be at least 7")
    for name in THREADS:
        os.environ[name] = "1"

    import cases
    import measurement

    load_before = measurement.load()
    rows = cases.run(quick=options.quick, pairs=1 if options.quick else options.pairs)
    facts = measurement.machine_facts() | {
        "load_average": [load_before, measurement.load()],
        "quick": options.quick,
    }
    print(measurement.markdown(rows, facts))
    if options.json:
        report = {"machine": facts, "rows": [row.to_dict() for row in rows]}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
