#include "kernel/exec/core_layout.h"

#include <numeric>

#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

namespace {

constexpr TaskType kTaskTypes[] = {
    {"AIV_ONLY", 0, 1, false, false},   {"AIC_ONLY", 1, 0, false, false},   {"MIX_AIV_1_0", 0, 1, true, false},
    {"MIX_AIC_1_0", 1, 0, true, false}, {"MIX_AIC_1_1", 1, 1, true, false}, {"MIX_AIC_1_2", 1, 2, true, false},
    {"AICORE", 0, 1, false, true},
};

std::vector<uint32_t> Range(uint32_t begin, uint32_t count)
{
    std::vector<uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), begin);
    return numbers;
}

}  // namespace

const char* Name(CoreKind kind)
{
    return kind == CoreKind::kCube ? "AIC" : kind == CoreKind::kVector ? "AIV" : "AICore";
}

const TaskType* FindTaskType(const std::string& name, bool isCoupled)
{
    for (const TaskType& type : kTaskTypes) {
        if (name == type.name && isCoupled == type.isCoupled) {
            return &type;
        }
    }
    return nullptr;
}

CorePosition CoreLayout::At(uint32_t core) const
{
    const CoreKind kind = core < Begin(CoreKind::kVector) ? CoreKind::kCube : CoreKind::kVector;
    const uint32_t blockIndex = core - Begin(kind);
    return {type_.isCoupled ? CoreKind::kCoupled : kind, blockIndex / PerGroup(kind), blockIndex % PerGroup(kind),
            blockIndex};
}

std::vector<uint32_t> CoreLayout::CoresOf(CoreKind kind, uint32_t group) const
{
    return Range(Begin(kind) + group * PerGroup(kind), PerGroup(kind));
}

std::vector<uint32_t> CoreLayout::CoresOf(CoreKind kind) const
{
    return Range(Begin(kind), groups_ * PerGroup(kind));
}

std::string CoreLayout::NameOf(uint32_t core) const
{
    const CorePosition position = At(core);
    return IsMixed() ? Text(Name(position.kind), " block ", position.blockIndex) : Text("block ", position.blockIndex);
}

uint32_t CoreLayout::PhysicalCount(const SocFigures& soc) const
{
    return static_cast<uint32_t>((type_.cubes > 0 ? soc.cubeCores : 0) + (type_.vectors > 0 ? soc.vectorCores : 0));
}

uint32_t CoreLayout::PhysicalOf(uint32_t core, const SocFigures& soc) const
{
    const CorePosition position = At(core);
    const auto cubes = static_cast<uint32_t>(soc.cubeCores);
    if (position.kind == CoreKind::kCube) {
        return position.blockIndex % cubes;
    }
    const auto vectors = static_cast<uint32_t>(soc.vectorCores);
    return IsMixed() ? cubes + position.group % cubes * (vectors / cubes) + position.subBlock
                     : position.blockIndex % vectors;
}

CoreKind CoreLayout::PhysicalKind(uint32_t physical, const SocFigures& soc) const
{
    const bool isCube = type_.cubes > 0 && physical < static_cast<uint32_t>(soc.cubeCores);
    return isCube ? CoreKind::kCube : type_.isCoupled ? CoreKind::kCoupled : CoreKind::kVector;
}

bool CoreLayout::FitsOn(const SocFigures& soc) const
{
    return groups_ <= static_cast<uint64_t>(type_.cubes > 0 ? soc.cubeCores : soc.vectorCores);
}

}  // namespace opforge::twin::kernel
