"""Figures of runs, guarantees and noise. Figures of runs show raw losses and are not private.

Every function takes ``ax=`` and returns the axes or figure. No function shows, saves or keeps a
figure, and matplotlib (extra ``plot``) is imported on first use. The colours are those of Okabe and
Ito, which can be distinguished with every form of colour vision, and every line also has its own
style. Bands show the range over repeated runs. Proven bounds are dashed and thin, with a triangle
at the round for which they hold. `draw_page` needs no matplotlib: it draws releases of a monitor as
HTML.
"""

from __future__ import annotations

from dpoco.plotting._comparison import plot_comparison
from dpoco.plotting._drawing import STYLE, new_figure
from dpoco.plotting._page import draw_page
from dpoco.plotting._privacy import plot_audit, plot_noise, plot_privacy
from dpoco.plotting._runs import (
    plot_decisions,
    plot_loss,
    plot_prequential,
    plot_regret,
    plot_run_report,
    plot_switches,
)

__all__ = ["STYLE", "draw_page", "new_figure", "plot_audit", "plot_comparison",
           "plot_decisions", "plot_loss", "plot_noise", "plot_prequential", "plot_privacy",
           "plot_regret", "plot_run_report", "plot_switches"]  # fmt: skip
