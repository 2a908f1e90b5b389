"""The help of every command ends with examples, and they are commands that are understood."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from dpoco.cli._app import app, load_command


def leaves(command, *names):
    """Return the commands without sub-commands, by name."""
    if not hasattr(command, "commands"):
        return {names: command}
    found = {}
    for name in command.list_commands(None):
        own = command.get_command(None, name) if names else load_command(name)
        found.update(leaves(own, *names, name))
    return found


COMMANDS = leaves(typer.main.get_command(app))


def examples(command):
    """Return the words of the examples in a command's help, without the program's name."""
    text = re.split(r"For example:|Example:", command.help)[1:]
    lines = [line.strip() for part in text for line in re.split(r"\n\s*\n|\f", part)]
    commands = [" ".join(line.split()) for line in lines if line.startswith("dpoco ")]
    return [shlex.split(line.partition(" > ")[0])[1:] for line in commands]


@pytest.mark.parametrize("names", COMMANDS, ids=str)
def test_examples_are_understood(names):
    found = examples(COMMANDS[names])
    assert found
    assert all(getattr(parameter, "help", None) for parameter in COMMANDS[names].params)
    assert any(tuple(words[: len(names)]) == names for words in found)
    for words in found:
        depth = next(d for d in (1, 2) if tuple(words[:d]) in COMMANDS)
        rest = words[depth:]
        if "--config" in rest:  # is read at once
            at = rest.index("--config")
            assert rest[at + 1].endswith((".json", ".toml"))
            del rest[at : at + 2]
        # Raises for an option that there is not, or a value of another type.
        COMMANDS[tuple(words[:depth])].make_context("dpoco", rest)


def test_an_option_that_there_is_not_would_be_found():
    with pytest.raises(Exception, match="No such option"):
        COMMANDS["audit",].make_context("dpoco", ["noisy-max", "--trails", "3"])
