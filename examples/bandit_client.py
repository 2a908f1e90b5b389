"""Users visit ``dpoco serve examples/bandit.toml`` and bring rewards: what an application does.

Usage: python examples/bandit_client.py URL TOKEN [--visits N] [--quick]

TOKEN is an operator's: dpoco serve examples/bandit.toml --new-token shop --operator
"""

from __future__ import annotations

import argparse
import json
import uuid
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np

OPEN = build_opener(ProxyHandler({})).open


class Service:
    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def ask(self, page: str, **record: Any) -> Any:
        body = json.dumps(record).encode()
        with OPEN(Request(f"{self._url}/{page}", body, self._headers), timeout=10) as answer:
            return json.load(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--visits", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="20 visits")
    options = parser.parse_args()
    service, rng = Service(options.url, options.token), np.random.default_rng(0)
    likes, earned = rng.normal(size=(5, 8)), 0.0
    visits = 20 if options.quick else options.visits
    for visit in range(visits):
        context = rng.normal(size=8)
        context /= np.linalg.norm(context)
        # After a lost answer, the same request may be sent again: it gets the same decision.
        asked = {"user": f"user {visit % 500}", "context": context.tolist()}
        answer = service.ask("decisions", **asked, request=str(uuid.uuid4()))
        reward = float(np.clip(likes[answer["arm"]] @ context, -1.0, 1.0))
        service.ask("rewards", ticket=answer["ticket"], reward=reward)
        earned += reward
    print(f"{visits} visits, mean reward {earned / visits:.3f}")
    print(
        f"waiting rounds of one user deleted: {service.ask('deletions', user='user 0')['rounds']}"
    )


if __name__ == "__main__":
    main()
