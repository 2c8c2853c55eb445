"""Run campaigns, each for a share of the time: `PYTHONPATH=tests python -m campaigns`.

    python -m campaigns --minutes 10              all of them
    python -m campaigns kills readers --minutes 2 --seed 7

Adds to results/campaigns.json, and ends with 1 if anything failed. Without a seed every run takes
one that was not tried yet, so that the cases of several runs add up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch and NumPy are imported

from campaigns.harness import Attack, Campaign
from campaigns.record import Record

NO_LIMIT = 10**9
CAMPAIGNS = {
    "model_files": 1_000_000,
    "page_decoder": 20_000,
    "readers": 100_000,
    "kills": 1_500,
    "run_folders": 600,
    "http_surface": 20_000,
    "markup": 56,
    "torchrun_kills": 200,
    "http_saturation": NO_LIMIT,
}
"""By module, with the cases after which each is done; the last goes by time alone."""
RESULT = Path(__file__).parents[1] / "results" / "campaigns.json"


def main() -> int:
    """Run what was asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--minutes", type=float, default=10.0, help="for all of them together")
    parser.add_argument("--seed", type=int, help="if left out: one that was not tried yet")
    parser.add_argument("--output", type=Path, default=RESULT)
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(CAMPAIGNS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose of {', '.join(CAMPAIGNS)}")
    names = asked.names or list(CAMPAIGNS)
    num_failures = 0
    for name in names:
        record = Record(asked.output, name)
        seed = record.next_seed if asked.seed is None else asked.seed
        found = run(name, 60 * asked.minutes / len(names), seed)
        record.add(found)
        num_failures += found["failures"]
    return 1 if num_failures else 0


def run(name: str, seconds: float, seed: int, most_cases: int | None = None) -> dict[str, Any]:
    """One campaign; what it found."""
    attack: Attack = import_module(f"campaigns.{name}").attack
    campaign = Campaign(name, seed, seconds, most_cases or CAMPAIGNS[name])
    attack(campaign)
    found = campaign.result()
    print(
        f"{name}: {found['cases']:,} cases, {found['failures']:,} failures, "
        f"{found['seconds']:.0f} s  {json.dumps(found['figures'])}",
        flush=True,
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
