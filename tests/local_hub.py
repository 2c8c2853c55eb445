"""A stand-in for the Hugging Face Hub on the loopback interface: what its client asks of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local_server import running


class LocalHub(ThreadingHTTPServer):
    """Repositories as lists of commits, each with all files; the newest is ``main``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self.made: list[dict[str, Any]] = []
        """What was said when a repository was made."""
        self.refuses_writing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, repo: str) -> dict[str, bytes]:
        return self.commits[repo][-1][1]

    def commit(self, repo: str, lines: list[dict[str, Any]]) -> str:
        earlier = self.files(repo) if self.commits[repo] else {}
        added = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        name = hashlib.sha1(json.dumps([len(self.commits[repo]), repo]).encode()).hexdigest()
        self.commits[repo].append((name, {**earlier, **added}))
        return name


class _Handler(BaseHTTPRequestHandler):
    server: LocalHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refuses_writing:
            return self._json({"error": "not yours"}, 403)
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            self.server.made.append(asked)
            repo = f"{asked['organization']}/{asked['name']}" if "organization" in asked else ""
            self.server.commits.setdefault(repo or asked["name"], [])
            return self._json({"url": f"{self.server.url}/{repo}"})
        if self.path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        found = re.fullmatch(r"/api/models/(.+)/(preupload|commit)/main", self.path)
        assert found, self.path
        if found[2] == "preupload":
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = [
                {"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths
            ]
            return self._json({"files": modes})
        name = self.server.commit(found[1], [json.loads(line) for line in body.splitlines()])
        url = f"{self.server.url}/{found[1]}/commit/{name}"
        return self._json({"commitUrl": url, "commitOid": name, "success": True})

    def do_GET(self) -> None:
        if known := re.fullmatch(r"/api/models/(.+)", self.path):
            commits = self.server.commits[known[1]]
            sha = commits[-1][0] if commits else None
            return self._json({"id": known[1], "_id": "1", "sha": sha})
        found = re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", self.path)
        assert found, self.path
        for name, files in reversed(self.server.commits.get(found[1], [])):
            if found[2] in ("main", name) and found[3] in files:
                content = files[found[3]]
                etag = hashlib.sha256(content).hexdigest()
                return self._answer(200, content, {"X-Repo-Commit": name, "ETag": f'"{etag}"'})
        error = "EntryNotFound" if found[1] in self.server.commits else "RepoNotFound"
        return self._answer(404, b"", {"X-Error-Code": error})

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def _json(self, value: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def local_hub() -> Iterator[LocalHub]:
    """A running stand-in."""
    with LocalHub() as hub, running(hub):
        yield hub
