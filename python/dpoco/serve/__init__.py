"""A private bandit behind HTTP: ``dpoco serve bandit.toml``. Needs the extra ``serve``.

Uvicorn and h11 implement HTTP, Starlette routes requests, and pydantic checks them. This package
keeps the order of the steps: it checks all that can fail before a decision is drawn, and a
decision is on disk before anyone sees it. Guide: ``docs/bandit_service.md``.
"""

from __future__ import annotations

from dpoco.serve._app import make_app
from dpoco.serve._config import Settings
from dpoco.serve._http import run
from dpoco.serve._service import Service, open_service
from dpoco.serve._tokens import Tokens, open_tokens

__all__ = ["Service", "Settings", "Tokens", "make_app", "open_service", "open_tokens", "run"]
