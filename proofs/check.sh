#!/usr/bin/env bash
# Checks every machine proof, in about a minute. Exit status: 0 if all hold, 1 (and the name) if one does not,
# 77 if nothing failed but a tool is absent and something was skipped.
# Debian: apt-get install --no-install-recommends gappa sollya coq libcoq-interval libcoq-flocq python3-z3
set -euo pipefail
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
skipped=""
fail() { echo "NOT PROVED: $1. Written for Gappa 1.4, Sollya 8.0, Coq 8.16 and z3 4.8: are these others?" >&2; exit 1; }
skip() { skipped="$skipped $1"; echo "SKIPPED: $2; $1 is not installed" >&2; }

if command -v "${CXX:-c++}" >/dev/null; then
  python3 render.py "$out" "${CXX:-c++}"  # with the operations of the kernels as they are compiled
else
  skip c++ "everything about elementary functions"
fi

if ! command -v gappa >/dev/null; then
  skip gappa "rounding errors of elementary functions"
elif [ -e "$out/trace" ]; then
  for f in "$out"/*.gappa; do
    gappa "$f" 2>/dev/null || fail "kernels/$(basename "$f")"
    echo "proved: kernels/$(basename "$f")"
  done
fi

if ! command -v sollya >/dev/null; then
  skip sollya "approximation errors of elementary functions"
elif [ -e "$out/trace" ]; then
  found=$(sollya "$out/approx.sollya") || true  # its exit status says nothing
  echo "$found"
  # Every call of the two procedures, and nothing else, says "proved".
  if [ "$(grep -c '^proved:' <<<"$found")" != "$(grep -cE '^(certify|close)\(' kernels/approx.sollya)" ] ||
    grep -qv '^proved:' <<<"$found"; then
    fail kernels/approx.sollya
  fi
fi

if grep -nE '\b(Admitted|admit|Abort|Axiom|Axioms|Parameter|Parameters|Conjecture|give_up)\b' lemmas/*.v; then
  fail "a lemma, by its own words"
fi
if ! command -v coqc >/dev/null || ! [ -d "$(coqc -where)/user-contrib/Interval" ]; then
  skip coq "every lemma in lemmas/ (coq, libcoq-interval and libcoq-flocq)"
else
  for f in lemmas/*.v; do
    name=$(basename "$f")
    if ! [ -e "$out/$name" ]; then  # no compiler
      if grep -q '@coq' "$f"; then continue; fi
      cp "$f" "$out"
    fi
    (cd "$out" && coqc -q "$name") || fail "$f"
    echo "proved: $f"
  done
fi

if ! python3 -c 'import z3' 2>/dev/null && ! /usr/bin/python3 -c 'import z3' 2>/dev/null; then
  skip python3-z3 "counters over all 64-bit values"
else
  python=python3
  python3 -c 'import z3' 2>/dev/null || python=/usr/bin/python3
  "$python" integers/counters.py || fail integers/counters.py
fi
python3 integers/trees.py || fail integers/trees.py
if ! python3 -c 'import scipy.signal' 2>/dev/null; then
  skip scipy "norms of banded sums"
else
  python3 integers/bands.py || fail integers/bands.py
fi

if [ -n "$skipped" ]; then
  echo "SKIPPED: not everything was checked, for want of:$skipped" >&2
  exit 77
fi
echo "every machine proof holds"
