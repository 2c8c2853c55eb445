from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.main import get_command

import cerp
from cerp.cli import app
from cerp.cli.words import COMMANDS, OPTIONS, SWITCHES, for_the_command_line

SOURCE = Path(cerp.__file__).parent


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("keep users with more (k_core=3)", "keep users with more (--k-core 3)"),
        ("pass resume=True to go on", "pass --resume to go on"),
        ("time=False reads without times", "--no-time reads without times"),
        ('pass encoding="latin-1".', "pass --encoding latin-1."),
        ("name another delimiter=';'", "name another --delimiter ';'"),
        ("is it another delimiter=?", "is it another --delimiter?"),
        ("say header=True or header=False", "say --header or --no-header"),
        ('ids="string" keeps them', "--string-ids keeps them"),
        ("max_file_size '2XB' is no size", "--max-file-size '2XB' is no size"),
        ("prune.epochs is 0", "--prune-epochs is 0"),
        ("such as Splits.save writes", "such as 'cerp data split' writes"),
        ("cerp.fit(resume=True) goes on", "'cerp train'(--resume) goes on"),
    ],
)
def test_settings_and_calls_are_said_as_one_types_them(message: str, typed: str):
    assert for_the_command_line(message) == typed


@pytest.mark.parametrize(
    "message",
    [
        "runs/seed=1: no such folder",
        "seed=1.csv: no such file",
        "k_core=3, line 7: the user id is missing",
        "'time=False' is no user",
        "the time of an item and its rating",
        "method_options={'size': 3}",
        "data/max_file_size/x",
    ],
)
def test_paths_ids_and_ordinary_words_stay(message: str):
    assert for_the_command_line(message) == message


def commands(group: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{path} {name}")


def test_every_word_is_one_of_the_command_line():
    known = dict(commands(get_command(app), "cerp"))
    assert set(COMMANDS.values()) <= known.keys()
    options = {
        option
        for command in known.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {*OPTIONS.values(), *SWITCHES.values()} - options == set()


# What the library says

WRITES_COMMANDS = "reports/commands.py"
"""Its results are command lines, so it names flags: the one file outside ``cli`` that does."""

# No variable of a style sheet; also where the name of a flag is filled in: f"--{role}".
FLAG = re.compile(r"(?<![\w-])(?<!var\()--([a-z][a-z-]*\b(?!-*:)|$)")
VERB = re.compile(
    rf"\bcerp ({'|'.join(command.name or '' for command in app.registered_commands)}|data)\b"
)


def said(source: str) -> Iterator[str]:
    """The string literals of a module that are no docstrings."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield str(node.value)


def test_the_search_finds_flags_and_verbs():
    found = list(said('"""--documented"""\nraise E(f"{x}; pass --k-core 3, as cerp train does")'))
    assert [FLAG.search(text)[0] for text in found] == ["--k-core"]
    assert [VERB.search(text)[0] for text in found] == ["cerp train"]
    assert not FLAG.search(":root { --line: #888; } p { color: var(--line) }")


def test_the_library_never_names_flags_or_verbs_of_the_command_line():
    speaking = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for text in said(path.read_text(encoding="utf-8"))
        if FLAG.search(text) or VERB.search(text)
    }
    library = {name for name in speaking if not name.startswith("cli/")}
    assert library == {WRITES_COMMANDS}
