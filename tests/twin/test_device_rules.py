"""Test rules of the device: the check of the twin for each, and the planted mistake that proves the check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opforge.codegen.project import BUILTIN_ROOT

HERE = Path(__file__).parent
KERNEL_SOURCES = "".join(
    path.read_text(encoding="utf-8") for path in sorted((BUILTIN_ROOT / "twin" / "src" / "kernel").rglob("*.[ch]*"))
)
# rule -> {check: [proofs]}. A check is a kind of finding, "compile error", "lint: RULE", "warning: KIND" or "result". A
# proof is FILE:NAME, a planted mistake, a rejected line or a test of test_kernel_FILE.py.
RULES: dict[str, dict[str, list[str]]] = {
    "operands and ends of copies in UB are at multiples of 32 bytes": {
        "ub_misaligned": ["checks:copy_to_odd_address", "checks:vector_odd_address"],
    },
    "every row of a copy is inside the tensor's extent and its argument": {
        "gm_out_of_range": [
            "checks:read_behind_input",
            "checks:read_before_input",
            "checks:write_behind_output",
            "checks:write_behind_declared",
            "checks:last_row_behind_output",
        ],
    },
    "a LocalTensor ends with its buffer": {
        "ub_out_of_range": ["checks:tensor_too_short", "checks:negative_slice", "checks:slice_behind_buffer"],
    },
    "UB, buffers and event ids are limited": {
        "ub_budget": ["checks:ub_budget"],
        "buffer_count": ["checks:too_many_buffers"],
        "event_ids": ["checks:too_many_events"],
        "field_range": ["checks:event_id_8"],
    },
    "copies move whole blocks, and rows of whole elements; padding is at most a block": {
        "field_range": ["checks:copy_length", "checks:part_of_element"],
        "padding": ["checks:wide_padding"],
    },
    "integers fit their fields before they are narrowed": {
        "field_range": [
            "checks:repeat_256",
            "checks:repeat_stride_256",
            "checks:block_count_4096",
            "checks:block_length",
            "checks:length_of_65536_blocks",
            "checks:gap_of_65536_blocks",
            "checks:negative_count",
        ],
        "compile error": ["refusals:Add(f, f, f, 64, 1, {1, 1, 1, 8, 8, n});"],
    },
    "masks select existing lanes; a repeat count of 0 has no effect": {
        "mask_range": ["checks:mask_65", "checks:mask_0", "checks:bit_mask_too_wide"],
        "warning: no_effect": ["memory:repeat_0", "memory:reduce_repeat_0"],
    },
    "instructions have the dtypes of the device": {
        "compile error": ["refusals:Add(b, b, b, 64);", "refusals:ReduceSum(i, i, i, 64);"],
    },
    "casts have the pairs and modes of the device": {
        "compile error": ["refusals:Cast(b, h, RoundMode::CAST_RINT, 64);"],
        "cast_mode": ["checks:cast_none"],
    },
    "in-place operands have one address, and no repeat reads results of an earlier one": {
        "overlap": ["checks:overlap", "checks:in_place_over_half_a_repeat"],
    },
    "stores of the scalar unit stay in its cache; a flush covers an address to the end of its line": {
        "cache_not_flushed": ["checks:scalar_store_in_cache", "memory:line_flushed_from_its_middle"],
    },
    "a buffer has the states alloc, enque, deque, free of one queue": {
        "missing_enque": ["checks:missing_enque"],
        "queue_order": ["checks:enque_twice", "checks:use_in_queue", "checks:wrong_queue"],
        "queue_depth": ["checks:enque_over_depth"],
        "queue_unbalanced": ["checks:missing_free"],
        "queue_exhausted": ["checks:queue_too_deep"],
    },
    "a position determines the reading and the writing pipe": {
        "position": ["checks:store_from_input_queue", "checks:load_to_output_queue", "checks:compute_before_enque"],
    },
    "a freed tensor cannot be used": {"use_after_free": ["checks:use_after_free", "checks:free_twice"]},
    "pipes are ordered only by flags, barriers and queues": {
        "race": [
            "races:load_then_compute",
            "races:vector_then_store",
            "races:reload_while_computing",
            "races:overwrite_while_storing",
            "races:two_loads_overlap",
            "races:barrier_of_another_pipe",
            "races:wait_of_another_event",
        ],
    },
    "instructions of one pipe overlap, too": {
        "race": [
            "races:vector_read_after_write",
            "races:vector_write_after_read",
            "races:vector_write_after_write",
            "races:two_stores_overlap",
        ],
    },
    "scalar accesses are not ordered by the program": {
        "race": [
            "races:vector_then_get_value",
            "races:set_value_then_vector",
            "races:load_then_get_value",
            "races:set_value_then_store",
        ],
    },
    "a flag orders the loads of a core after its stores": {
        "race": ["races:read_back_at_once", "races:get_value_of_what_is_stored"],
    },
    "a barrier makes stores visible to other cores; atomic adds may overlap": {
        "race": ["races:cores_without_barrier", "races:cores_write_the_same", "races:read_while_others_add"],
        "result": ["launch:test_atomic_adds_of_all_blocks_arrive"],
    },
    "blocks run in any order": {"result": ["launch:test_order_and_threads_do_not_change_results"]},
    "flags are set once, waited for once, and clear at the end": {
        "flag_left_set": ["checks:flag_left_set"],
        "flag_not_set": ["checks:flag_never_set", "checks:other_flag"],
        "flag_set_twice": ["checks:flag_set_twice"],
    },
    "all cores call SyncAll, equally often, in a kernel that may": {
        "deadlock": ["checks:idle_block_leaves", "checks:one_sync_more"],
        "sync_task_type": ["checks:sync_of_vector_only"],
        "sync_block_num": ["checks:sync_of_too_many"],
    },
    "new memory is undefined": {
        "uninitialised_read": [
            "checks:uninitialised_scratch",
            "checks:uninitialised_output",
            "checks:undefined_padding",
            "memory:use_of_unwritten_workspace",
        ],
        "result": ["launch:test_poison_differs_from_launch_to_launch"],
    },
    "the atomic mode has a dtype, one tensor and an end": {
        "compile error": ["refusals:SetAtomicMax<int64_t>();"],
        "atomic_dtype": ["checks:atomic_of_other_dtype"],
        "warning: atomic_second_tensor": ["memory:second_tensor_in_atomic_mode"],
        "atomic_left_on": ["checks:atomic_left_on"],
    },
    "results are rounded at each step, except in fused instructions": {
        "result": ["numbers:test_elementwise", "numbers:test_fused_instructions_round_once", "numbers:test_casts"],
    },
    "sums have the order of the device": {
        "result": ["numbers:test_reduce_sum_is_a_tree_in_a_repeat_and_a_chain_over_repeats"],
    },
    "a pointer into GM keeps __gm__": {
        "compile error": [
            "refusals:g.SetGlobalBuffer((float*)x);",
            "refusals:g.SetGlobalBuffer(reinterpret_cast<float*>(x));",
            "refusals:float* raw = (__gm__ float*)x; (void)raw;",
        ],
    },
    "kernels have no library, no heap, no static data, no double": {
        "lint: std": ["lint:std"],
        "lint: c-function": ["lint:c-function"],
        "lint: new": ["lint:new"],
        "lint: static": ["lint:static"],
        "lint: double": ["lint:double"],
        "lint: virtual": ["lint:virtual"],
        "lint: function-pointer": ["lint:function-pointer"],
    },
    "all functions of a kernel are device functions": {"lint: aicore": ["lint:aicore"]},
    "each key has a separate branch": {"lint: tiling-key": ["lint:tiling-key"], "tiling_key": ["checks:unknown_key"]},
    "the stack is small": {"lint: stack": ["lint:stack"], "stack_overflow": ["crashes:recursion"]},
}


def _proofs() -> Iterator[tuple[str, str, str]]:
    for rule, checks in RULES.items():
        for check, proofs in checks.items():
            for proof in proofs:
                yield rule, check, proof


def _block(text: str, name: str) -> str:
    """Return the text of a planted mistake between its name and the next name."""
    return re.split(r"\bPlanted\(|^\]", text[text.index(f'"{name}"') :], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize(("rule", "check", "proof"), list(_proofs()))
def test_a_rule_has_a_check_that_is_proved(rule, check, proof, record_rule: Callable[..., None]):
    file, name = proof.split(":", 1)
    text = (HERE / f"test_kernel_{file}.py").read_text(encoding="utf-8")
    kind = check.removeprefix("warning: ").removeprefix("lint: ")
    if file in {"launch", "numbers"}:
        assert f"def {name}(" in text
        assert check == "result"
    elif file == "refusals":
        assert f'    "{name}": "' in text
        assert check == "compile error"
    elif file == "lint":
        assert f'    "{name}": [' in text
        assert kind == name
    elif file == "crashes":
        assert re.search(rf'"{name}": \(.*?"{kind}"', text, re.DOTALL)
    else:
        assert kind in re.findall(r'"(\w+)"', _block(text, name)) or (file == "races" and kind == "race")
        assert f'"{kind}"' in KERNEL_SOURCES
    record_rule(rule, check, name)
