// The cores of a launch, by its task type: their kinds, their numbers, and their AI cores.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_CORE_LAYOUT_H
#define OPFORGE_TWIN_KERNEL_EXEC_CORE_LAYOUT_H

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/exec/soc.h"

namespace opforge::twin::kernel {

/// kCoupled: a cube and a vector unit in one core.
enum class CoreKind : uint8_t { kVector, kCube, kCoupled };

const char* Name(CoreKind kind);

struct TaskType {
    const char* name;
    uint32_t cubes;    ///< of an AI core: 0 or 1
    uint32_t vectors;  ///< of an AI core that has a cube core: 0..2; else 1
    bool hasBarrier;   ///< the device can synchronize its cores
    bool isCoupled;    ///< its "vector" cores also have a cube unit
};

/// Null if the type does not exist or no core of this kind runs it.
const TaskType* FindTaskType(const std::string& name, bool isCoupled);

/// A core of a launch as the kernel sees it.
struct CorePosition {
    CoreKind kind = CoreKind::kVector;
    uint32_t group = 0;       ///< AI core
    uint32_t subBlock = 0;    ///< vector core of it
    uint32_t blockIndex = 0;  ///< GetBlockIdx()
};

/// Cores of a launch are numbered: cube cores first, then vector cores, each by block index.
class CoreLayout {
public:
    CoreLayout(const TaskType& type, uint32_t blockNum) : type_(type), groups_(blockNum) {}

    const TaskType& Type() const { return type_; }
    bool IsMixed() const { return type_.cubes > 0 && type_.vectors > 0; }
    uint32_t Count() const { return groups_ * (type_.cubes + type_.vectors); }
    CorePosition At(uint32_t core) const;
    /// Cores of a kind, of one AI core or of all.
    std::vector<uint32_t> CoresOf(CoreKind kind, uint32_t group) const;
    std::vector<uint32_t> CoresOf(CoreKind kind) const;
    /// "block 3", or "AIC block 3" if both kinds run.
    std::string NameOf(uint32_t core) const;
    /// Cores of the SoC that the launch could use: cube cores first, then vector cores.
    uint32_t PhysicalCount(const SocFigures& soc) const;
    /// The core of the SoC that runs a core of the launch. Blocks beyond the number of cores run after earlier blocks
    /// of the same core.
    uint32_t PhysicalOf(uint32_t core, const SocFigures& soc) const;
    CoreKind PhysicalKind(uint32_t physical, const SocFigures& soc) const;
    /// Whether all run at once.
    bool FitsOn(const SocFigures& soc) const;

private:
    uint32_t Begin(CoreKind kind) const { return kind == CoreKind::kCube ? 0 : groups_ * type_.cubes; }
    uint32_t PerGroup(CoreKind kind) const { return kind == CoreKind::kCube ? type_.cubes : type_.vectors; }

    const TaskType& type_;
    uint32_t groups_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_CORE_LAYOUT_H
