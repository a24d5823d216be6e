"""Where tests of API functions without a row in a table are: the result, a misuse, and the time."""

from __future__ import annotations

# A proof is FILE:NAME, a test, a planted mistake or a row of test_kernel_FILE.py or test_FILE.py. "none: REASON" states
# why there is no proof.
NO_OPERAND = "none: it takes no operand"
ALL_VALID = "none: each argument of its type is valid"
NO_EFFECT = "none: it has no effect on the twin"
HELPER = "none: a helper of the headers of the twin"
SCALAR = "none: the time model has no time for other scalar code"
HOST = "none: a function of the host"
REFUSED = "none: its use is a compile error"
SCALARS = "system:test_values"
CONSTANTS = "none: a constant expression"

Proof = tuple[str, str, str]
Names = str


def _each(names: Names, *proof: str) -> dict[str, Proof]:
    value, misuse, time = proof
    return dict.fromkeys(names.split(), (value, misuse, time))


PROOFS: dict[str, Proof] = {
    # numbers
    **_each(
        """CeilDivision CountBitsCntSameAsSignBit CountLeadingZero GetBitCount GetSFFValue ScalarCast
        ScalarCountLeadingZero ScalarGetCountOfValue ScalarGetSFFValue GetSortLen GetSortOffset GetBufferLogicPos""",
        SCALARS,
        ALL_VALID,
        SCALAR,
    ),
    "DivCeil": (SCALARS, "system:DivCeil_by_zero", SCALAR),
    "AlignUp": (SCALARS, "system:AlignUp_by_zero", SCALAR),
    "sqrt": (SCALARS, ALL_VALID, SCALAR),
    "CeilDiv": ("matmul:test_names_of_the_headers", "matmul:names_by_zero", SCALAR),
    "CeilAlign": ("matmul:test_names_of_the_headers", ALL_VALID, SCALAR),
    "ToFloat": ("instructions:scalar_conversions", ALL_VALID, SCALAR),
    "ToBfloat16": (
        "instructions:scalar_conversions",
        "refusals:bfloat16_t s = ToBfloat16(1.0f); s = s + s;",
        SCALAR,
    ),
    **_each(
        "Crd2Idx MakeCoord MakeLayout MakeShape MakeStride MakeTile MakeTensorTrait", SCALARS, ALL_VALID, CONSTANTS
    ),
    **_each("GetVecLen GetDataBlockSizeInBytes GetUBSizeInBytes SupportType", SCALARS, NO_OPERAND, CONSTANTS),
    **_each("SplitCoordinate SumCoordinates", HELPER, HELPER, HELPER),
    "GetShapeSize": (SCALARS, ALL_VALID, SCALAR),
    # the core
    **_each(
        """GetBlockIdx GetBlockNum GetSubBlockIdx GetSubBlockNum GetTaskRatio GetTaskRation GetRuntimeUBSize
        GetArchVersion GetSystemCycle GetProgramCounter GetSaturationFlag""",
        SCALARS,
        NO_OPERAND,
        SCALAR,
    ),
    "GetCtrlSpr": (SCALARS, "refusals:n = GetCtrlSpr<6, 8>();", SCALAR),
    "SetCtrlSpr": ("tensors:test_saturation_replaces_infinities_and_nan", "tensors:wide_value", SCALAR),
    "SetSaturationFlag": (
        "tensors:test_saturation_replaces_infinities_and_nan",
        "tensors:casts_do_not_saturate",
        SCALAR,
    ),
    "GetUserWorkspace": (SCALARS, "none: the argument is ignored, as on the device", SCALAR),
    "SetSysWorkspace": ("system:test_values", "system:wrong_workspace", SCALAR),
    "SetSysWorkspaceForce": ("system:test_values", "system:forced_workspace", SCALAR),
    "SetSysWorkSpace": ("system:test_values", "system:older_workspace", SCALAR),
    "InitSocState": ("system:test_values", NO_OPERAND, SCALAR),
    "Async": ("core_state:test_functions_run_on_one_kind_of_core", ALL_VALID, SCALAR),
    "GetStoreAtomicConfig": ("core_state:test_the_numbers_of_the_atomic_mode", NO_OPERAND, SCALAR),
    "SetAtomicNone": ("registers:SetAtomicAdd_float32", "checks:atomic_left_on", SCALAR),
    **_each("Nop PRELOAD MarkStamp MetricsProfStart MetricsProfStop PrintTimeStamp", SCALARS, NO_EFFECT, SCALAR),
    **_each("InitDump OOMCheckAddrRange SetSyncBaseAddr", SCALARS, NO_EFFECT, SCALAR),
    **_each(
        "DataCachePreload ICachePreLoad DataSyncBarrier", "registers:cache_hints", NO_EFFECT, "registers:cache_hints"
    ),
    "GetICachePreloadStatus": ("registers:cache_hints", NO_OPERAND, "registers:cache_hints"),
    **_each(
        "SetNextTaskStart WaitPreTaskEnd", "instructions:waits_and_caches", NO_EFFECT, "instructions:waits_and_caches"
    ),
    # messages
    "printf": ("system:test_messages", "system:text_of_number", SCALAR),
    "PRINTF": ("system:test_messages", "system:number_of_float", SCALAR),
    "DumpTensor": ("system:test_messages", "system:dump_too_far", SCALAR),
    "DumpAccChkPoint": ("system:test_messages", "system:checkpoint_too_far", SCALAR),
    "Trap": ("system:trapped", "system:trapped", "none: it ends the block"),
    # copies, sorts and softmax
    "DataCopyPad": ("instructions:pad_value_float32", "cube:padded_copy", "instructions:pad_value_float32"),
    "Concat": ("registers:sort_all", "none: it only sets a tensor, which Sort checks", "registers:sort_all"),
    "AdjustSoftMaxRes": (
        "high_softmax:test_adjusted_rows",
        "high_softmax:test_adjusted_rows_are_aligned",
        "high_softmax:test_adjusted_rows",
    ),
    "SoftmaxFlashV3": (
        "high_softmax:test_flash_v3",
        "high_softmax:test_shapes_of_flash_v3",
        "high_softmax:test_flash_v3",
    ),
    "Arange": ("high_families:arange", "high_families:test_misplaced_operand", "high_families:arange"),
    # cores that wait for each other
    "SyncAll": (
        "launch:test_order_and_threads_do_not_change_results",
        "checks:one_sync_more",
        "time:test_scalar_accesses_and_barriers",
    ),
    "CrossCoreSetFlag": (
        "cube:test_the_clean_mixed_kernel_is_silent",
        "cube:pipe_of_others",
        "mixed:test_vector_cores_wait_for_the_cycles_of_the_cube_unit",
    ),
    "CrossCoreWaitFlag": (
        "cube:test_the_clean_mixed_kernel_is_silent",
        "cube:flag_of_sync_all",
        "mixed:test_vector_cores_wait_for_the_cycles_of_the_cube_unit",
    ),
    "NotifyEvent": (
        "matmul:test_names_of_the_headers",
        "matmul:names_not_notified",
        "matmul:test_names_of_the_headers",
    ),
    "WaitEvent": ("matmul:test_names_of_the_headers", "matmul:names_not_awaited", "matmul:test_names_of_the_headers"),
    **{
        name: (
            "block_order:test_blocks_run_in_the_order_of_their_indices",
            f"block_order:{misuse}",
            "block_order:test_each_block_begins_after_the_previous_one_and_the_flag",
        )
        for name, misuse in {
            "IBSet": "beyond_workspace",
            "IBWait": "no_wait",
            "InitDetermineComputeWorkspace": "small_scratch",
            "WaitPreBlock": "not_ordered",
            "NotifyNextBlock": "not_notified",
        }.items()
    },
    # cube cores
    **{
        name: ("cube:test_the_clean_cube_kernel_is_silent", f"cube:{misuse}", "cube_times:clean_cube")
        for name, misuse in {
            "InitConstValue": "no_fill",
            "LoadData": "l0a_address",
            "Mmad": "too_many_rows",
            "MmadImpl": "product_too_wide",
            "SetFmatrix": "small_image",
            "Load3DSetFMatrixCal": "small_other_image",
            "SetLoadDataBoundary": "other_boundary",
            "SetLoadDataRepeat": "two_loads",
        }.items()
    },
    "SetLoadDataPaddingValue": ("image:test_products_of_images", "image:no_padding_value", "cube_times:clean_cube"),
    "Fixpipe": ("quant:test_sums_of_int8_are_quantized", "cube:fractals_of_odd_width", "cube_times:to_sums"),
    **_each(
        "SetAippFunctions", "picture:test_points_of_images", "picture:two_sources", "picture:test_cycles_of_images"
    ),
    **_each("LoadImageToLocal", "picture:test_points_of_images", "picture:in_l0a", "picture:test_cycles_of_images"),
    "SetFixPipeConfig": ("quant:copy_columns", "quant:columns_without_scales", "cube_times:copy_columns"),
    "SetFixpipePreQuantFlag": ("quant:copy_half", "quant:copied_without_scale", "cube_times:copy_half"),
    "SetFixpipeNz2ndFlag": (
        "quant:copy_half",
        "quant:test_rows_need_the_number_of_matrices",
        "cube_times:copy_half",
    ),
    "SetHF32Mode": ("gemm:test_sums_are_made_in_the_order_of_k", "cube:hf32_still_on", "cube_times:modes_reset"),
    "SetHF32TransMode": ("gemm:test_sums_are_made_in_the_order_of_k", ALL_VALID, "cube_times:modes_reset"),
    "SetMMRowMajor": ("int4:whole", NO_EFFECT, "cube_times:whole"),
    "SetMMColumnMajor": ("int4:tail", NO_EFFECT, "cube_times:tail"),
    "SetMMLayoutTransform": ("int4:narrow", NO_EFFECT, "cube_times:narrow"),
    "LoadDataWithTranspose": (
        "int4:test_products_of_transposed_squares",
        "refusals:LoadDataWithTranspose(l, l, LoadData2dTransposeParams(0, 1, 1, 0, 0));",
        "cube_times:turned_int8_t",
    ),
    "LoadDataWithSparse": ("sparse:test_products_with_a_sparse_factor", "sparse:wrong_memory", "cube_times:whole"),
    "MmadWithSparse": ("sparse:test_products_with_a_sparse_factor", "sparse:odd_k", "cube_times:whole"),
    "ToMatmulConfig": ("matmul:test_constant_tiling", ALL_VALID, CONSTANTS),
    "GetMatmulApiTiling": (
        "matmul:test_constant_tiling",
        "matmul:test_constant_blocks_that_do_not_fit",
        CONSTANTS,
    ),
    # the host
    "GetSortMaxMinTmpSize": (
        "high_tiling:test_sort_needs_a_pair_for_each_element",
        "high_tiling:test_sort_needs_a_pair_for_each_element",
        HOST,
    ),
    "IsBasicBlockInSoftMax": ("high_tiling:test_rows_with_padding_and_basic_blocks", ALL_VALID, HOST),
    "GmAlloc": ("programs:test_debug_mode", "programs:test_planted_mistake_in_debug_mode", HOST),
    "GmFree": ("programs:test_debug_mode", "programs:test_planted_mistake_in_debug_mode", HOST),
    "SetKernelMode": ("programs:test_debug_mode", "programs:test_planted_mistake_in_debug_mode", HOST),
    # names without a function
    "Clamp": (REFUSED, "refusals:Clamp(f, f, 0.0f, 1.0f, 64);", REFUSED),
    "CreateCubeResGroup": ("groups:test_products_of_messages", "groups:second_group", "groups:test_time"),
}
OPERATORS = {
    **dict.fromkeys("+-*/&|", ("test_operators_compute_whole_tensors", "test_an_operator_needs_enough_elements")),
    **dict.fromkeys(
        ("<", ">", "<=", ">=", "==", "!="), ("test_comparisons_give_bits", "test_an_operator_needs_enough_elements")
    ),
}
PROOFS |= {
    f"operator {symbol}": (f"tensors:{value}", f"tensors:{misuse}", f"tensors:{value}")
    for symbol, (value, misuse) in OPERATORS.items()
}
