"""Ctrl-C as in a terminal: a runner in the background may have it ignored, which is inherited."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
