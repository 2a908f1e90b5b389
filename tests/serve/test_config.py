"""The file of a service: every key is known, and errors name it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from tests.serve.conftest import configuration
from typer.testing import CliRunner

from dpoco import StateError, cli, serve
from dpoco.cli._app import app
from dpoco.serve import _config as config

HERE = Path("/nowhere/bandit.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bandit.arms", 1), ("bandit.arms", "3"), ("bandit.arms", True), ("bandit.dimension", 0),
        ("bandit.epsilon", 0.0), ("bandit.epsilon", float("inf")), ("bandit.delta", 1.0),
        ("bandit.delta", float("nan")), ("bandit.horizon", 2.5), ("bandit.feedback_seconds", -1.0),
        ("bandit.reward_bound", None), ("bandit.rounds_per_person", 0), ("bandit.armz", 3),
        ("store.mark", 5), ("store.folder", None), ("store.durability", "never"),
        ("limits.user_tickets", 0), ("limits.connections", 1), ("limits.client_seconds", 0.0),
        ("limit", {}), ("store", []),
    ],
)  # fmt: skip
def test_errors_name_the_key(key, value):
    record = configuration()
    table, _, name = key.partition(".")
    if name:
        record[table][name] = value
        if value is None:
            del record[table][name]
    else:
        record[table] = value
    with pytest.raises(ValueError, match=rf"bandit\.toml, {key}: "):
        serve.Settings.read(record, HERE)


@pytest.mark.parametrize("name", ["mark", "key"])
def test_neither_mark_nor_key_is_in_the_folder(name):
    store = {**configuration()["store"], name: "data/deep/file"}
    with pytest.raises(ValueError, match=rf"store\.{name}: it belongs elsewhere"):
        serve.Settings.read(configuration(store=store), HERE)
    missing = configuration()
    del missing["store"]["mark"]
    with pytest.raises(ValueError, match=r"store\.mark: Field required"):
        serve.Settings.read(missing, HERE)


def test_the_key_is_made_once_and_never_again(tmp_path):
    settings = serve.Settings.read(configuration(), tmp_path / "bandit.toml")
    assert settings.store.key == tmp_path / "bandit.key"
    with serve.open_tokens(settings) as tokens:
        token = tokens.create("ann")
    files = [*tmp_path.rglob("*.key"), tmp_path / "data" / "service.db"]
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    with serve.open_tokens(settings) as tokens:
        assert tokens.find(token) == ("ann", False)
    settings.store.key.chmod(0o640)
    with pytest.raises(StateError, match="chmod 600"), serve.open_tokens(settings):
        pass
    settings.store.key.rename(tmp_path / "lost")
    with pytest.raises(ValueError, match="is gone"), serve.open_tokens(settings):
        pass


def test_the_command_makes_tokens_and_says_what_is_wrong(tmp_path, capsys):
    file = tmp_path / "bandit.json"

    def command(*arguments):
        code = cli.main(["serve", str(file), *arguments])
        return code, *capsys.readouterr()

    assert command() == (2, "", f"error: no such file: {file}\n")
    file.write_text(json.dumps(configuration(arms=0)))
    code, _, said = command()
    assert code == 2
    assert said.startswith("error: bandit.json, bandit.arms: ")
    assert said.count("\n") == 1
    file.write_text("[]")
    assert command()[0] == 2
    file.write_text(json.dumps(configuration()))
    code, token, _ = command("--new-token", "ann")
    assert code == 0
    with serve.open_tokens(serve.Settings.read(configuration(), file)) as tokens:
        assert tokens.find(token.strip()) == ("ann", False)
    assert command("--new-token", "root", "--operator")[0] == 0
    assert command("--revoke", "ann") == (0, "tokens ended: 1\n", "")
    assert command("--operator")[0] == 2


@pytest.mark.parametrize("links", [True, False])
def test_two_first_processes_have_one_key(tmp_path, monkeypatch, links):
    settings = serve.Settings.read(configuration(), tmp_path / "bandit.toml")
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    make, found = config._make_key, []

    def meanwhile(path):  # another process came as far before this one wrote its key
        if not found:
            found.append(None)
            found.append(config.folder_and_key(settings.store))
        make(path)

    monkeypatch.setattr(config, "_make_key", meanwhile)
    key = config.folder_and_key(settings.store)
    sealed = b"".join(key.seal(b"place", b"row"))
    if links:
        assert found[1].open(b"place", sealed) == b"row"
    names = {path.name for path in settings.store.key.parent.iterdir()}
    assert not any(name.startswith(".bandit.key.") for name in names)
    assert stat.S_IMODE(settings.store.key.stat().st_mode) == 0o600


def refuse(*_):
    raise PermissionError("no links here")


def test_a_file_that_is_none_is_one_line(tmp_path):
    path = tmp_path / "deep.toml"
    for text in (b"a = " + b"[" * 100_000, b"\xff\xfe", b"a = ["):
        path.write_bytes(text)
        result = CliRunner().invoke(app, ["serve", str(path)])
        assert result.exit_code == 2
        assert "deep.toml is not a TOML file" in result.stderr
