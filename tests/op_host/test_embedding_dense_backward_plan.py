"""Test the plan on random shapes."""

from __future__ import annotations


def test_every_plan_keeps_its_promises(check_plans):
    check_plans("embedding_dense_backward")
