// State of a core: the atomic mode by number, watched memory; functions for one kind of core.
#ifndef OPFORGE_TWIN_KERNEL_CORE_STATE_H
#define OPFORGE_TWIN_KERNEL_CORE_STATE_H

#include "opforge_twin/kernel/data_copy.h"
#include "opforge_twin/kernel/sync.h"
#include "opforge_twin/kernel/system.h"

namespace opforge::twin::kernel {

constexpr Dtype DtypeOf(AscendC::AtomicDtype type)
{
    constexpr Dtype all[] = {Dtype::kOther, Dtype::kFloat32, Dtype::kFloat16, Dtype::kInt16,
                             Dtype::kInt32, Dtype::kInt8,    Dtype::kBfloat16};
    return all[static_cast<int>(type)];
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Blocks (startAddr, endAddr] of 32 bytes of the unified buffer, and the accesses that are errors there.
struct CheckLocalMemoryIAParam {
    CheckLocalMemoryIAParam() {}
    CheckLocalMemoryIAParam(const uint8_t enableBitIn, const uint32_t startAddrIn, const uint32_t endAddrIn,
                            const bool isScalarReadIn, const bool isScalarWriteIn, const bool isVectorReadIn,
                            const bool isVectorWriteIn, const bool isMteReadIn, const bool isMteWriteIn,
                            const bool isEnableIn)
        : enableBit(enableBitIn),
          startAddr(startAddrIn),
          endAddr(endAddrIn),
          isScalarRead(isScalarReadIn),
          isScalarWrite(isScalarWriteIn),
          isVectorRead(isVectorReadIn),
          isVectorWrite(isVectorWriteIn),
          isMteRead(isMteReadIn),
          isMteWrite(isMteWriteIn),
          isEnable(isEnableIn)
    {
    }
    uint8_t enableBit = 0;
    uint32_t startAddr = 0;
    uint32_t endAddr = 0;
    bool isScalarRead = false;
    bool isScalarWrite = false;
    bool isVectorRead = false;
    bool isVectorWrite = false;
    bool isMteRead = false;
    bool isMteWrite = false;
    bool isEnable = false;
    uint32_t reserved = 0;
};

template <AtomicDtype type, AtomicOp op>
OPFORGE_API void SetStoreAtomicConfig()
{
    twin::GateSetStoreAtomicConfig<twin::ValueType<type>>();
    constexpr twin::AtomicOp mode = type == AtomicDtype::ATOMIC_NONE ? twin::AtomicOp::kNone : twin::AtomicOp::kAdd;
    twin::SetAtomic(mode, twin::DtypeOf(type), {"SetStoreAtomicConfig", twin::Here()});
}

/// Returns the numbers of AtomicDtype and AtomicOp.
OPFORGE_API inline void GetStoreAtomicConfig(uint16_t& atomicType, uint16_t& atomicOp)
{
    const twin::Call call{"GetStoreAtomicConfig", twin::Here()};
    const twin::Dtype dtype = twin::AtomicDtypeOf(call);
    for (int type = 0; type <= static_cast<int>(AtomicDtype::ATOMIC_BF16); ++type) {
        if (twin::DtypeOf(static_cast<AtomicDtype>(type)) == dtype) {
            atomicType = static_cast<uint16_t>(type);
        }
    }
    atomicOp = static_cast<uint16_t>(AtomicOp::ATOMIC_SUM);
}

/// Returns the number of cores of this kind for each AI core of the launch. The name since 2026.
OPFORGE_API inline int64_t GetTaskRatio()
{
    const twin::ComposedCall call;
    return twin::SubBlockCount();
}

/// Calls a function on cores of one kind.
template <EngineType engine, auto funPtr, class... Args>
void Async(Args... args)
{
    if (engine == EngineType::AIC ? twin::IsCubeCore() : twin::IsVectorCore()) {
        funPtr(args...);
    }
}

/// Makes accesses to a part of the unified buffer errors, until a call with isEnable = false.
template <int gate = 0>
OPFORGE_API void CheckLocalMemoryIA(const CheckLocalMemoryIAParam& checkParams)
{
    twin::GateCheckLocalMemoryIA<twin::ValueType<gate>>();
    const twin::Call call{"CheckLocalMemoryIA", twin::Here()};
    const CheckLocalMemoryIAParam& p = checkParams;
    const auto bits = [](bool read, bool write) { return (read ? 1U : 0U) | (write ? 2U : 0U); };
    twin::WatchMemory(
        {p.isEnable, twin::Field("enableBit", p.enableBit, 0, 3, call),
         twin::Field("startAddr", p.startAddr, 0, 65535, call), twin::Field("endAddr", p.endAddr, 0, 65535, call),
         bits(p.isScalarRead, p.isScalarWrite), bits(p.isVectorRead, p.isVectorWrite), bits(p.isMteRead, p.isMteWrite)},
        call);
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_CORE_STATE_H
