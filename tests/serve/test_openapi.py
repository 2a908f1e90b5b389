"""Schemathesis against the service's own description, in this process."""

from __future__ import annotations

import json

import hypothesis
import pytest
from hypothesis import HealthCheck
from tests.serve.conftest import configuration

from dpoco import serve


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    schemathesis = pytest.importorskip(
        "schemathesis"
    )  # takes seconds: not while tests are collected
    folder = tmp_path_factory.mktemp("service")
    limits = {"user_requests_per_second": 10**6, "user_tickets": 10**6, "tickets": 10**6}
    file = folder / "bandit.toml"
    settings = serve.Settings.read(configuration(horizon=100_000, limits=limits), file)
    with serve.open_service(settings) as (service, rows):
        tokens = serve.Tokens(rows)
        app = serve.make_app(service, tokens, public=False)
        loaded = schemathesis.openapi.from_asgi("/openapi.json", app)
        loaded.token = tokens.create("ann")
        yield loaded


@pytest.mark.parametrize("path", ["/decisions", "/rewards", "/deletions"])
def test_the_description_says_what_the_service_does(schema, path):
    """Over a second: some 40 requests, each in an event loop of Schemathesis."""
    operation = schema[path]["POST"]

    @hypothesis.settings(
        max_examples=12, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(case=operation.as_strategy())
    def ask(case):
        case.call_and_validate(headers={"Authorization": f"Bearer {schema.token}"})

    ask()


def test_every_page_is_described(schema):
    raw = schema.raw_schema
    assert set(raw["paths"]) == {
        "/decisions", "/rewards", "/deletions", "/guarantee", "/metrics", "/healthz",
        "/healthz/live", "/openapi.json",
    }  # fmt: skip
    assert raw["components"]["schemas"]["AskDecision"]["properties"]["context"]["minItems"] == 2
    json.dumps(raw, allow_nan=False)
