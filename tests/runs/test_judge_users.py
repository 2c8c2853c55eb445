"""Models that are judged on a sample of users."""

from __future__ import annotations

import numpy as np

import cerp
from cerp.data.synthetic import synthetic
from cerp.evaluation.evaluate import users_to_judge
from cerp.runs.floor import popularity_floors

QUICK = {"dim": 8, "epochs": 1, "prune_epochs": 1, "verbose": False}
SPLITS = synthetic(60, 40, 900).split(seed=0)


def test_every_figure_of_a_run_is_that_of_the_same_sample():
    model = cerp.fit(SPLITS, "60%", backbone="mf", judge_users=20, **QUICK)
    for part in ("valid", "test"):
        users = users_to_judge(SPLITS, part, 20)
        assert model.judged[part].users.tolist() == users.tolist()
        assert model.metrics[part]["users"] == 20
        assert popularity_floors([model])["popularity"][part]["users"] == 20


def test_a_sample_says_of_how_many_and_how_far_it_may_be_off():
    figures = cerp.fit(SPLITS, "60%", backbone="mf", judge_users=20, **QUICK).metrics["test"]
    assert figures["users_with_truth"] == len(np.unique(SPLITS.test.user))
    assert 0 < figures["half_width"]["ndcg@10"] < 0.5


def test_ids_are_checked_on_a_sample_too():
    report = cerp.id_leak(SPLITS, judge_users=20)
    assert (report.users, report.users_with_truth) == (20, len(np.unique(SPLITS.test.user)))
