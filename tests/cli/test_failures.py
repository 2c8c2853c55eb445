"""What goes wrong at scale is said in words, and not called a bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from cerp import cli


class OutOfMemoryError(RuntimeError):
    """As PyTorch calls its own."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_memory_that_ran_out_is_no_bug(error: Exception, monkeypatch, capsys):
    def failing() -> None:
        raise error

    monkeypatch.setattr(cli, "app", failing)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "not enough memory" in said
    assert "bug" not in said


def test_rows_that_were_merged_are_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    # Twelve pairs, each three times.
    rows = [f"{user},{item}\n" for user in range(4) for item in range(3)] * 3
    (tmp_path / "log.csv").write_text("user,item\n" + "".join(rows))
    command = ["data", "split", str(tmp_path / "log.csv"), "-o", str(tmp_path / "split")]
    cli.app(command, standalone_mode=False)
    assert "36 rows are 12 interactions" in capsys.readouterr().err
