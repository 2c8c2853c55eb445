"""What is installed: all that the package needs, nothing else, and it runs by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cerp

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src",
         "pyproject.toml", "README.md", "LICENSE"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ignored.returncode:
        pytest.skip("what belongs to the project is known by git, which is not here")
    for name in filter(None, ignored.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and "setuptools" in built.stderr:
        pytest.skip("setuptools, which builds the wheel, cannot be had here")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "cerp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == package


@pytest.mark.slow
def test_the_command_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    # Nothing of this clone: the folder of the wheel comes before whatever is installed.
    code = "import sys; from cerp.start import main; sys.argv = ['cerp', '--version']; main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert result.stdout == f"cerp {cerp.__version__}\n", result.stderr
