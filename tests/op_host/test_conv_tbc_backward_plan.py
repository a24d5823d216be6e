"""Test the plan on random shapes."""

from __future__ import annotations


def test_every_plan_satisfies_its_guarantees(check_plans):
    check_plans("conv_tbc_backward", count=2_000)  # a plan compares thousands of tiles
