// The C API of Ascend C: identity, synchronization, registers, caches and the scalar unit.
#ifndef OPFORGE_TWIN_C_SYSTEM_H
#define OPFORGE_TWIN_C_SYSTEM_H

#include "kernel_operator.h"

namespace opforge::twin::kernel {

/// The tensor from an address of the unified buffer on.
template <typename T>
AscendC::LocalTensor<T> At(T* address)
{
    const LocalView view =
        ViewOfPointer(reinterpret_cast<uintptr_t>(address), DtypeOf<T>(), sizeof(T), {"C API", Here()});
    return AscendC::LocalTensor<T>(view, AscendC::TPosition::VECCALC);
}

inline AscendC::LocalTensor<uint8_t> At(void* address)
{
    return At(static_cast<uint8_t*>(address));
}

inline AscendC::GlobalTensor<uint8_t> At(__gm__ void* address)
{
    return GlobalAt(static_cast<__gm__ uint8_t*>(address));
}

/// The atomic mode of the numbers of a dtype and of an operation.
inline void SetAtomicNumbers(int64_t type, int64_t op, const Call& call)
{
    Field("op", op, 0, 0, call);
    Field("type", type, 0, static_cast<int64_t>(AscendC::AtomicDtype::ATOMIC_BF16), call);
    SetAtomic(type == 0 ? AtomicOp::kNone : AtomicOp::kAdd, DtypeOf(static_cast<AscendC::AtomicDtype>(type)), call);
}

/// A transposition of the blocks at the addresses in registers.
template <typename T>
void TransposeRegisters(int64_t dst, int64_t src, const AscendC::TransDataTo5HDParams& params, const Call& call)
{
    const auto listOf = [&](int64_t number) {
        const BlockAddresses all[] = {BlockAddressesOf(number, call), BlockAddressesOf(number + 1, call)};
        return [all, &call](size_t index) {
            return ViewOf(all[index / kRegisterAddresses][index % kRegisterAddresses], DtypeOf<T>(), sizeof(T), call);
        };
    };
    TransposeBlocks<T>(listOf(dst), listOf(src), params, call);
}

}  // namespace opforge::twin::kernel

/// The registers of asc_set_va_reg.
enum ub_addr8_t { VA0, VA1, VA2, VA3, VA4, VA5, VA6, VA7 };

union asc_store_atomic_config {
    uint64_t config = 0;
    struct {
        uint64_t atomic_type : 3;
        uint64_t atomic_op : 2;
        uint64_t reserved1 : 59;
    };
};

#define OPFORGE_C_LIST(...) __VA_ARGS__

// A function without a count, and its form that waits for all pipes.
#define OPFORGE_C_INSTRUCTION(name, head, operands, arguments, ...) \
    template <OPFORGE_C_LIST head>                                  \
    OPFORGE_API void name(OPFORGE_C_LIST operands)                  \
    {                                                               \
        using namespace opforge::twin::kernel;                      \
        const ComposedCall call;                                    \
        __VA_ARGS__;                                                \
    }                                                               \
    template <OPFORGE_C_LIST head>                                  \
    OPFORGE_API void name##_sync(OPFORGE_C_LIST operands)           \
    {                                                               \
        const opforge::twin::kernel::ComposedCall call;             \
        name arguments;                                             \
        AscendC::PipeBarrier<PIPE_ALL>();                           \
    }

enum mem_dsb_t { DSB_ALL = 0, DSB_DDR = 1, DSB_UB = 2, DSB_SEQ = 3 };

#define OPFORGE_C_CALL(name, parameters, ...)           \
    OPFORGE_API inline auto name parameters             \
    {                                                   \
        const opforge::twin::kernel::ComposedCall call; \
        return __VA_ARGS__;                             \
    }
OPFORGE_C_CALL(asc_init, (), AscendC::InitSocState())
OPFORGE_C_CALL(asc_get_block_idx, (), int64_t{block_idx})
OPFORGE_C_CALL(asc_get_block_num, (), AscendC::GetBlockNum())
OPFORGE_C_CALL(asc_get_sub_block_id, (), AscendC::GetSubBlockIdx())
OPFORGE_C_CALL(asc_get_sub_block_num, (), AscendC::GetSubBlockNum())
OPFORGE_C_CALL(asc_get_arch_ver, (uint32_t& core_version), AscendC::GetArchVersion(core_version))
OPFORGE_C_CALL(asc_get_program_counter, (), AscendC::GetProgramCounter())
OPFORGE_C_CALL(asc_get_core_id, (),
               opforge::twin::kernel::CoreNumber({"asc_get_core_id", opforge::twin::kernel::Here()}))
OPFORGE_C_CALL(asc_get_phy_buf_addr, (uint64_t offset),
               opforge::twin::kernel::BufferAddress(offset, {"asc_get_phy_buf_addr", opforge::twin::kernel::Here()}))
OPFORGE_C_CALL(asc_get_ctrl, (),
               static_cast<int64_t>(opforge::twin::kernel::ControlRegister({"asc_get_ctrl",
                                                                            opforge::twin::kernel::Here()})))
OPFORGE_C_CALL(asc_set_ctrl, (uint64_t config),
               opforge::twin::kernel::SetControlRegister(config, {"asc_set_ctrl", opforge::twin::kernel::Here()}))
// The address of the flags between cores has no effect.
OPFORGE_C_CALL(asc_set_ffts_base_addr, (uint64_t config),
               opforge::twin::kernel::SetWord(opforge::twin::kernel::Word::kSyncBase, config,
                                              {"asc_set_ffts_base_addr", opforge::twin::kernel::Here()}))
OPFORGE_C_CALL(asc_get_ffts_base_addr, (),
               static_cast<int64_t>(opforge::twin::kernel::WordOf(
                   opforge::twin::kernel::Word::kSyncBase, {"asc_get_ffts_base_addr", opforge::twin::kernel::Here()})))
// The twin has neither a stack address nor a virtual base nor an SMMU.
OPFORGE_C_CALL(asc_get_phy_stack_base, (), int64_t{0})
OPFORGE_C_CALL(asc_get_sys_virtual_base, (), int64_t{0})
OPFORGE_C_CALL(asc_get_smmu_tag_version, (), int64_t{0})
OPFORGE_C_CALL(asc_set_store_atomic_config_v1, (uint16_t type, uint16_t op),
               opforge::twin::kernel::SetAtomicNumbers(type, op,
                                                       {"asc_set_store_atomic_config_v1",
                                                        opforge::twin::kernel::Here()}))
OPFORGE_API inline void asc_get_store_atomic_config(asc_store_atomic_config& config)
{
    const opforge::twin::kernel::ComposedCall call;
    uint16_t type = 0;
    uint16_t op = 0;
    AscendC::GetStoreAtomicConfig(type, op);
    config.atomic_type = type;
    config.atomic_op = op;
}
constexpr int ASC_C_API_MRGSORT_ELEMENT_LEN = 4;
OPFORGE_C_CALL(asc_get_vms4_sr, (uint16_t sorted_num[ASC_C_API_MRGSORT_ELEMENT_LEN]),
               AscendC::GetMrgSortResult(sorted_num[0], sorted_num[1], sorted_num[2], sorted_num[3]))
/// Sets the addresses of eight blocks for asc_transto5hd_b8 and similar functions.
template <typename T>
OPFORGE_API void asc_set_va_reg(ub_addr8_t addr, T** src_array)
{
    opforge::twin::kernel::BlockAddresses addresses;
    for (size_t index = 0; index < addresses.size(); ++index) {
        addresses[index] = reinterpret_cast<uintptr_t>(src_array[index]);
    }
    opforge::twin::kernel::SetBlockAddresses(addr, addresses, {"asc_set_va_reg", opforge::twin::kernel::Here()});
}
OPFORGE_C_CALL(asc_get_rsvd_count, (), AscendC::GetGatherMaskRemainCount())
OPFORGE_C_CALL(asc_set_fp32_mode, (), AscendC::SetHF32Mode(false))
OPFORGE_C_CALL(asc_enable_hf32, (), AscendC::SetHF32Mode(true))
OPFORGE_C_CALL(asc_enable_hf32_trans, (uint32_t mode), AscendC::SetHF32TransMode(mode != 0))
OPFORGE_C_CALL(asc_set_mmad_direction_m, (), AscendC::SetMMColumnMajor())
OPFORGE_C_CALL(asc_set_mmad_direction_n, (), AscendC::SetMMRowMajor())
OPFORGE_C_CALL(asc_icache_preload, (const void* /*addr*/, int64_t prefetch_len), AscendC::ICachePreLoad(prefetch_len))
OPFORGE_C_CALL(asc_get_icache_preload_status, (), AscendC::GetICachePreloadStatus())
OPFORGE_C_CALL(asc_datacache_preload, (__gm__ uint64_t* address, int64_t offset),
               AscendC::DataCachePreload(opforge::twin::kernel::GlobalAt(address), offset))
// Has no effect: the twin finishes accesses of the scalar unit at once.
OPFORGE_C_CALL(asc_sync_data_barrier, (mem_dsb_t /*arg*/), AscendC::DataSyncBarrier<AscendC::MemDsbT::ALL>())
OPFORGE_C_CALL(asc_get_system_cycle, (), AscendC::GetSystemCycle())
OPFORGE_C_CALL(asc_sync, (), pipe_barrier(PIPE_ALL))
OPFORGE_C_CALL(asc_sync_pipe, (pipe_t pipe), pipe_barrier(pipe))
OPFORGE_C_CALL(asc_sync_vec, (), pipe_barrier(PIPE_V))
OPFORGE_C_CALL(asc_sync_mte2, (int /*id*/), pipe_barrier(PIPE_MTE2))
OPFORGE_C_CALL(asc_sync_mte3, (int /*id*/), pipe_barrier(PIPE_MTE3))
OPFORGE_C_CALL(asc_sync_notify, (pipe_t pipe, pipe_t tpipe, event_t id),
               opforge::twin::kernel::Set(opforge::twin::kernel::EventBetween(pipe, tpipe), id,
                                          {"asc_sync_notify", opforge::twin::kernel::Here()}))
OPFORGE_C_CALL(asc_sync_wait, (pipe_t pipe, pipe_t tpipe, event_t id),
               opforge::twin::kernel::Wait(opforge::twin::kernel::EventBetween(pipe, tpipe), id,
                                           {"asc_sync_wait", opforge::twin::kernel::Here()}))
OPFORGE_C_CALL(asc_set_mask_count, (), AscendC::SetMaskCount())
OPFORGE_C_CALL(asc_set_mask_norm, (), AscendC::SetMaskNorm())
OPFORGE_C_CALL(asc_set_vector_mask, (uint64_t mask1, uint64_t mask0), AscendC::SetVectorMask<half>(mask1, mask0))
OPFORGE_C_CALL(asc_get_cmp_mask, (void* dst), AscendC::GetCmpMask(opforge::twin::kernel::At(dst)))
OPFORGE_C_CALL(asc_set_cmp_mask, (void* sel_mask), AscendC::SetCmpMask(opforge::twin::kernel::At(sel_mask)))
OPFORGE_C_CALL(asc_set_deq_scale, (half scale), AscendC::SetDeqScale(scale))
OPFORGE_C_CALL(asc_set_deq_scale, (float scale, int16_t offset, bool sign_mode),
               AscendC::SetDeqScale(scale, offset, sign_mode))
constexpr int ASC_VDEQ_SIZE = 16;
/// The quantization of each element of a block; the scalar unit writes it to `tmp`.
OPFORGE_C_CALL(asc_set_deq_scale,
               (uint64_t* tmp, float scale_arr[ASC_VDEQ_SIZE], int16_t offset_arr[ASC_VDEQ_SIZE],
                bool sign_mode_arr[ASC_VDEQ_SIZE]),
               AscendC::SetDeqScale(opforge::twin::kernel::At(tmp),
                                    AscendC::VdeqInfo(scale_arr, offset_arr, sign_mode_arr)))
// The data cache of the scalar unit: the line of an address, or all lines.
OPFORGE_C_CALL(
    asc_dcci_single, (__gm__ void* dst),
    AscendC::DataCacheCleanAndInvalid<uint8_t, AscendC::CacheLine::SINGLE_CACHE_LINE>(opforge::twin::kernel::At(dst)))
OPFORGE_C_CALL(asc_ub_dcci_single, (void* dst),
               AscendC::DataCacheCleanAndInvalid<uint8_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                                 AscendC::DcciDst::CACHELINE_UB>(opforge::twin::kernel::At(dst)))
#define OPFORGE_C_CLEAN(name)                                                                         \
    OPFORGE_C_CALL(name, (),                                                                          \
                   AscendC::DataCacheCleanAndInvalid<uint8_t, AscendC::CacheLine::ENTIRE_DATA_CACHE>( \
                       AscendC::GlobalTensor<uint8_t>()))
OPFORGE_C_CALL(asc_dcci_entire_ub, (),
               AscendC::DataCacheCleanAndInvalid<uint8_t, AscendC::CacheLine::ENTIRE_DATA_CACHE,
                                                 AscendC::DcciDst::CACHELINE_UB>(AscendC::LocalTensor<uint8_t>()))
OPFORGE_C_CLEAN(asc_dcci_entire_all)
OPFORGE_C_CLEAN(asc_dcci_entire_out)
OPFORGE_C_CLEAN(asc_dcci_entire_atomic)
#undef OPFORGE_C_CLEAN
// Flags between cores: in all groups, between the cube core and the vector cores of a group, between its vector cores.
#define OPFORGE_C_CORES(name, mode)                                                                                 \
    OPFORGE_C_CALL(                                                                                                 \
        name##_arrive, (pipe_t pipe, int64_t flag_id),                                                              \
        opforge::twin::kernel::SetCrossCore(mode, pipe, flag_id, {#name "_arrive", opforge::twin::kernel::Here()})) \
    OPFORGE_C_CALL(name##_wait, (pipe_t /*pipe*/, int64_t flag_id),                                                 \
                   opforge::twin::kernel::WaitCrossCore(flag_id, {#name "_wait", opforge::twin::kernel::Here()}))
OPFORGE_C_CORES(asc_sync_inter, 0)
OPFORGE_C_CORES(asc_sync_subblock, 1)
OPFORGE_C_CORES(asc_sync_block, 2)
#undef OPFORGE_C_CORES
OPFORGE_C_CALL(asc_set_atomic_none, (), AscendC::SetAtomicNone())
#define OPFORGE_C_ATOMICS(name, function)                              \
    OPFORGE_C_CALL(name##_float, (), AscendC::function<float>())       \
    OPFORGE_C_CALL(name##_float16, (), AscendC::function<half>())      \
    OPFORGE_C_CALL(name##_bfloat, (), AscendC::function<bfloat16_t>()) \
    OPFORGE_C_CALL(name##_int, (), AscendC::function<int32_t>())       \
    OPFORGE_C_CALL(name##_int16, (), AscendC::function<int16_t>())     \
    OPFORGE_C_CALL(name##_int8, (), AscendC::function<int8_t>())
OPFORGE_C_ATOMICS(asc_set_atomic_add, SetAtomicAdd)
OPFORGE_C_ATOMICS(asc_set_atomic_max, SetAtomicMax)
OPFORGE_C_ATOMICS(asc_set_atomic_min, SetAtomicMin)
#undef OPFORGE_C_ATOMICS
// The scalar unit: numbers of bits, and positions of bits.
OPFORGE_C_CALL(asc_popc, (uint64_t value), int64_t{__builtin_popcountll(value)})
OPFORGE_C_CALL(asc_zero_bits_cnt, (uint64_t value), int64_t{__builtin_popcountll(~value)})
OPFORGE_C_CALL(asc_clz, (uint64_t value), int64_t{value == 0 ? 64 : __builtin_clzll(value)})
OPFORGE_C_CALL(asc_ffs, (uint64_t value), int64_t{__builtin_ffsll(static_cast<int64_t>(value)) - 1})
OPFORGE_C_CALL(asc_ffz, (uint64_t value), int64_t{__builtin_ffsll(static_cast<int64_t>(~value)) - 1})
OPFORGE_C_CALL(asc_sflbits, (int64_t value), int64_t{__builtin_clrsbll(value)})
OPFORGE_C_CALL(asc_set_nthbit, (uint64_t bits, int64_t idx), bits | (uint64_t{1} << (idx & 63)))
OPFORGE_C_CALL(asc_clear_nthbit, (uint64_t bits, int64_t idx), bits & ~(uint64_t{1} << (idx & 63)))

#endif  // OPFORGE_TWIN_C_SYSTEM_H
