"""The Phishing stream bundled with river."""

from __future__ import annotations

from dpoco.datasets._river import bundled_table
from dpoco.datasets._scaling import PublicScaling
from dpoco.datasets._stream import Stream

__all__ = ["load_phishing"]


def load_phishing() -> Stream:
    """Web pages described by nine graded checks; the label marks the fraudulent ones.

    1 250 rounds, too few for much accuracy under a small epsilon. Each check has one of the grades
    0, 1/2 and 1, so the declared range [0, 1] is exact; it is mapped to [-1, 1] and a constant
    column is appended (d = 10).

    Returns
    -------
    Stream
        Features in [-1, 1]; labels 0 or 1 (fraudulent).

    Raises
    ------
    ImportError
        Without river: ``pip install "dpoco[data]"``.
    """
    names, table = bundled_table("Phishing", "river")
    label = names.index("is_phishing")
    columns = [index for index in range(len(names)) if index != label]
    return Stream(
        name="phishing",
        features=table[:, columns],
        labels=table[:, label],
        feature_names=tuple(names[index] for index in columns),
        task="classification",
        description="Checks of web pages; label 1 marks a fraudulent page",
        source=(
            "UCI Machine Learning Repository, Website Phishing, "
            "https://archive.ics.uci.edu/dataset/379/website+phishing, as bundled with river"
        ),
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
    ).scaled(PublicScaling(0.0, 1.0))
