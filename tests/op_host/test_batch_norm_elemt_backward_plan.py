"""Test the plan on random shapes."""

from __future__ import annotations


def test_every_plan_satisfies_its_guarantees(check_plans):
    check_plans("batch_norm_elemt_backward", count=40_000)
