"""Where figures come from, how much memory they took, and how they are written."""

from __future__ import annotations

import json
import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"


def machine(*packages: str) -> dict[str, Any]:
    """What figures depend on: processor, load, and the versions of some packages."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


def described(device: str) -> dict[str, Any]:
    """The machine, or the GPU of it that did the work."""
    found = machine("torch")
    if device == "cuda":
        import torch  # not before: some benchmarks measure what runs without it

        found["processor"] = torch.cuda.get_device_name()
    return found


def processor() -> str:
    """The name of the CPU, where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def peak_memory() -> int:
    """Peak resident bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_figures(path: Path, figures: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Write JSON under a temporary name and rename it."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)
