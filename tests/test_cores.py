"""Work that is shared out among threads gives what it gives on one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent import futures
from concurrent.futures import Future
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp import cores
from cerp.cores import SPINS, TOLD_BY, allowed_threads, give_way, shared_out


def allow(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have so many threads, and the helpers that they need, whatever the machine has."""
    monkeypatch.setattr(cores, "available_cores", lambda: threads)
    for name in TOLD_BY:
        monkeypatch.delenv(name, raising=False)
    cores._helpers.cache_clear()


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, SPINS),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "active"}, None),
    ],
)
def test_threads_wait_shortly_unless_the_environment_says_how(
    told: dict[str, str], expected: str | None
):
    with patch.dict(os.environ, told, clear=True):
        give_way()
        assert os.environ.get("GOMP_SPINCOUNT") == expected


@given(st.integers(1, 5), st.lists(st.integers(), max_size=30))
def test_any_number_of_threads_gives_the_same_in_order(threads: int, parts: list[int]):
    with pytest.MonkeyPatch.context() as monkeypatch:
        allow(threads, monkeypatch)
        assert shared_out(str, parts) == [str(part) for part in parts]


def test_as_many_parts_as_threads_are_worked_on_at_the_same_time(monkeypatch: pytest.MonkeyPatch):
    allow(3, monkeypatch)
    everyone = threading.Barrier(3, timeout=30)
    assert sorted(shared_out(lambda _: everyone.wait(), range(3))) == [0, 1, 2]


def test_no_more_threads_take_part_than_are_wanted(monkeypatch: pytest.MonkeyPatch):
    allow(3, monkeypatch)
    both = threading.Barrier(2, timeout=30)

    def work(_: int) -> int:
        both.wait()  # a third thread would wait here for ever, and two never do
        return threading.get_ident()

    assert len(set(shared_out(work, range(6), most=2))) == 2
    assert set(shared_out(lambda _: threading.get_ident(), range(6), most=1)) == {
        threading.get_ident()
    }


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bad", [0, 5])
def test_an_error_in_a_part_reaches_the_caller(
    threads: int, bad: int, monkeypatch: pytest.MonkeyPatch
):
    allow(threads, monkeypatch)

    def work(part: int) -> None:
        if part == bad:
            raise ValueError(f"part {part}")

    with pytest.raises(ValueError, match=f"part {bad}"):
        shared_out(work, range(6))


def test_after_an_error_no_part_is_begun(monkeypatch: pytest.MonkeyPatch):
    allow(2, monkeypatch)
    caller, both, begun = threading.get_ident(), threading.Barrier(2, timeout=30), []
    is_waiting = threading.Event()

    def wait(helpers: list[Future[None]]) -> None:
        is_waiting.set()
        futures.wait(helpers)

    def work(part: int) -> None:
        begun.append(part)
        both.wait()
        if threading.get_ident() == caller:
            raise ValueError(f"part {part}")
        assert is_waiting.wait(30)  # the helper ends its part after the error

    monkeypatch.setattr(cores, "wait", wait)
    with pytest.raises(ValueError, match="part"):
        shared_out(work, range(9))
    assert sorted(begun) == [0, 1]


def test_parts_may_share_out_parts_of_their_own(monkeypatch: pytest.MonkeyPatch):
    allow(2, monkeypatch)
    found = shared_out(lambda part: shared_out(lambda one: part * one, range(4)), range(4))
    assert found == [[part * one for one in range(4)] for part in range(4)]


@pytest.mark.parametrize("name", TOLD_BY)
@pytest.mark.parametrize(
    ("told", "threads"), [("1", 1), ("3", 3), ("9", 4), ("", 4), ("0", 4), ("many", 4)]
)
def test_the_environment_may_allow_fewer_threads_than_cores(
    name: str, told: str, threads: int, monkeypatch: pytest.MonkeyPatch
):
    allow(4, monkeypatch)
    monkeypatch.setenv(name, told)
    assert allowed_threads() == threads


def test_one_thread_is_the_caller_alone(monkeypatch: pytest.MonkeyPatch):
    allow(4, monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert set(shared_out(lambda _: threading.get_ident(), range(8))) == {threading.get_ident()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_forked_process_has_helpers_of_its_own():
    script = """
import os, threading
from cerp import cores
cores.available_cores = lambda: 2
work = lambda barrier: lambda _: barrier.wait()
cores.shared_out(work(threading.Barrier(2, timeout=30)), range(2))
child = os.fork()
cores.shared_out(work(threading.Barrier(2, timeout=30)), range(2))
print("child" if child == 0 else os.waitpid(child, 0)[1])
"""
    environment = {name: told for name, told in os.environ.items() if name not in TOLD_BY}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert done.stdout.decode().split() == ["child", "0"], done.stderr.decode()
