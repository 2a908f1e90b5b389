"""Checks a built site: every link, image and anchor leads somewhere inside it.

``python -m tests.docs.links build/site``. Addresses of other hosts are counted, not fetched; a page
that loads a script, a style or a picture from one is an error.
"""

from __future__ import annotations

import argparse
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page points to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.add(values["href"])
        elif "src" in values:
            self.loads.add(values["src"])


def errors(site: Path) -> list[str]:
    """Return what is wrong with a built site."""
    pages = {path.resolve(): Page(path) for path in sorted(site.glob("**/*.html"))}
    found = [] if pages else [f"no pages in {site}"]
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for target in sorted(page.links | page.loads):
            url = urlsplit(target)
            if url.scheme == "data":
                continue
            if url.scheme or url.netloc:
                if target in page.loads:
                    found.append(f"{name} loads {target}")
                continue
            goal = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not goal.is_file():
                found.append(f"{name}: {target}")
            elif (
                url.fragment and goal in pages and unquote(url.fragment) not in pages[goal].anchors
            ):
                found.append(f"{name}: {target}, no such anchor")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the links of a built site.")
    parser.add_argument("site", type=Path)
    found = errors(parser.parse_args().site)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
