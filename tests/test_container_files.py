"""The Dockerfile and compose.yaml say what a careful operator would."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose.yaml").read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """(word, rest) of every instruction, lines joined."""
    joined = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def test_images_have_versions_and_the_last_one_runs_as_nobody():
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    assert len(images) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", image) for image in images)
    last = [word for word, _ in instructions()][::-1]
    assert last.index("USER") < last.index("FROM")
    (user,) = [rest for word, rest in instructions() if word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_what_is_copied_and_installed_is_in_the_project_and_pinned():
    for word, rest in instructions():
        if word == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources)
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert allowed[0] == "*"
    assert all((ROOT / line[1:]).exists() for line in allowed if line.startswith("!"))
    (install,) = [rest for word, rest in instructions() if "pip install" in rest]
    assert "--constraint constraints.txt" in install
    assert "--no-cache-dir" in install
    assert install.endswith("'.[serve]'")  # a server needs no torch


def test_commands_are_lists_that_get_signals():
    for word, rest in instructions():
        if word in ("CMD", "ENTRYPOINT"):
            assert rest.startswith("[")


def test_the_composed_server_can_write_nothing_and_is_reached_from_here_alone():
    for line in ("read_only: true", "- ALL", "- no-new-privileges:true", "- ./models:/models:ro"):
        assert re.search(rf"^\s+{re.escape(line)}$", COMPOSE, re.MULTILINE), line
    assert '- "127.0.0.1:8000:8000"' in COMPOSE
