// Tiling keys of tiling templates.
#include <algorithm>
#include <cstdio>

#include "ascendc/host_api/tiling/template_argument.h"

namespace {

/// The values of a parameter of numbers: ranges first, then single values.
std::vector<uint64_t> Expanded(const std::vector<uint64_t>& given)
{
    if (given.empty() || given[0] == ASCENDC_TPL_UI_LIST) {
        return {given.begin() + (given.empty() ? 0 : 1), given.end()};
    }
    std::vector<uint64_t> values;
    const size_t ranges = given.size() > 1 ? static_cast<size_t>(given[1]) : 0;
    const size_t end = std::min(2 + 2 * ranges, given.size());
    for (size_t at = 2; at + 1 < end; at += 2) {
        for (uint64_t value = given[at]; value <= given[at + 1]; ++value) {
            values.push_back(value);
        }
    }
    values.insert(values.end(), given.begin() + static_cast<int64_t>(end), given.end());
    return values;
}

std::vector<uint64_t> ValuesOf(const ParamStruct& parameter)
{
    return parameter.paramType == ASCENDC_TPL_UINT ? Expanded(parameter.vals) : parameter.vals;
}

bool Allows(const std::vector<ParamStruct>& combination, const ParamStruct& declared, uint64_t value)
{
    for (const ParamStruct& part : combination) {
        if (part.name == declared.name) {
            const std::vector<uint64_t> values = ValuesOf(part);
            return std::find(values.begin(), values.end(), value) != values.end();
        }
    }
    return true;
}

bool HasCombination(const TilingDeclareParams& declared, const TilingSelectParams& combinations,
                    const std::vector<uint64_t>& values)
{
    return std::any_of(combinations.begin(), combinations.end(), [&](const std::vector<ParamStruct>& combination) {
        for (size_t index = 0; index < declared.size(); ++index) {
            if (!Allows(combination, declared[index], values[index])) {
                return false;
            }
        }
        return true;
    });
}

}  // namespace

uint64_t AscendC::EncodeTilingKey(const TilingDeclareParams& declared, const TilingSelectParams& combinations,
                                  const std::vector<uint64_t>& values)
{
    if (values.size() != declared.size()) {
        std::fprintf(stderr, "tiling template: got %zu values, expected %zu; pass a value for each parameter\n",
                     values.size(), declared.size());
        return INVALID_TILING_KEY;
    }
    uint64_t key = 0;
    uint32_t bits = 0;
    for (size_t index = 0; index < declared.size(); ++index) {
        const ParamStruct& parameter = declared[index];
        uint64_t code = values[index];
        const std::vector<uint64_t> known = ValuesOf(parameter);
        const auto found = std::find(known.begin(), known.end(), code);
        const bool isNumber = parameter.paramType == ASCENDC_TPL_UINT;
        if (isNumber) {
            code = static_cast<uint64_t>(found - known.begin());
        }
        const bool fits = parameter.bitWidth >= 64 || code >> parameter.bitWidth == 0;
        if ((isNumber && found == known.end()) || !fits || bits + parameter.bitWidth > 64) {
            std::fprintf(stderr,
                         "tiling template: %s: got %llu, expected a declared value within %u bits; add it to "
                         "ASCENDC_TPL_ARGS_DECL\n",
                         parameter.name.c_str(), static_cast<unsigned long long>(values[index]), parameter.bitWidth);
            return INVALID_TILING_KEY;
        }
        key |= code << bits;
        bits += parameter.bitWidth;
    }
    if (!combinations.empty() && !HasCombination(declared, combinations, values)) {
        std::fprintf(stderr,
                     "tiling template: no ASCENDC_TPL_ARGS_SEL contains the combination of values; expected "
                     "one of the combinations in ASCENDC_TPL_SEL; add it\n");
        return INVALID_TILING_KEY;
    }
    return key;
}
