#include "kernel/exec/registers.h"

#include "kernel/exec/levels.h"

namespace opforge::twin::kernel {

void Registers::ReportLeft(Diagnostics& diagnostics, Level level) const
{
    if (hf32.isOn || hf32.truncates) {
        diagnostics.Report("hf32_left", Pipe::kScalar, {kKernelEnd, hf32.at},
                           "the mode of HF32 set here is still on; call SetHF32Mode(false) and "
                           "SetHF32TransMode(false)");
    }
    if (atomic.IsOn()) {
        diagnostics.Report("atomic_left_on", Pipe::kScalar, {kKernelEnd, atomic.at},
                           "the atomic mode set here is still on; call SetAtomicNone() after the last store that "
                           "needs it");
    }
    if ((mask.isCounter || mask.isChanged) && kMaskLeft.Has(level)) {
        diagnostics.Report("mask_left", Pipe::kScalar, {kKernelEnd, mask.changedAt},
                           mask.isCounter ? "counter mode is still on; call SetMaskNorm() and ResetMask()"
                                          : "the mask set here is still set at the end; call ResetMask()");
    }
}

}  // namespace opforge::twin::kernel
