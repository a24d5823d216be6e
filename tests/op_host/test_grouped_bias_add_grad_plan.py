"""Test the plan on random shapes."""

from __future__ import annotations


def test_every_plan_satisfies_its_guarantees(check_plans):
    check_plans("grouped_bias_add_grad")
