// Calls the host functions of one operator like the runtime: reads one call per line from stdin, and prints the result
// of InferShape and InferDataType (0) or tiling (1). Messages on stderr precede the result. operators.h includes the
// generated sources of all operators; their plans print their arguments.
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <iostream>
#include <string>
#include <vector>

#include "operators.h"
#include "opforge_twin/control.h"

namespace {

int64_t Number()
{
    int64_t number = 0;
    std::cin >> number;
    return number;
}

std::vector<int64_t> Numbers()
{
    std::vector<int64_t> numbers(static_cast<size_t>(Number()));
    for (int64_t& number : numbers) {
        number = Number();
    }
    return numbers;
}

/// A tensor: whether it exists, dtype, dimensions, whether its values are known, values.
void AddTensor(opforgeTwinCall* call, bool isInput, std::deque<std::vector<int64_t>>& kept)
{
    const bool isPresent = Number() != 0;
    const int32_t dtype = static_cast<int32_t>(Number());
    const std::vector<int64_t> dims = Numbers();
    const bool areValuesKnown = Number() != 0;
    const std::vector<int64_t>& values = kept.emplace_back(Numbers());
    const int64_t rank = isPresent ? static_cast<int64_t>(dims.size()) : -1;
    if (!isInput) {
        opforgeTwinAddOutput(call, dims.data(), rank, dtype);
        return;
    }
    static const int64_t none = 0;
    const int64_t* known = values.empty() ? &none : values.data();
    opforgeTwinAddInput(call, dims.data(), rank, dtype, areValuesKnown ? known : nullptr, values.size() * 8);
}

/// A list of tensors: the number of tensors, then the dtype and the dimensions of each.
void AddList(opforgeTwinCall* call, bool isInput)
{
    if (isInput) {
        opforgeTwinAddInput(call, nullptr, -1, 0, nullptr, 0);
    } else {
        opforgeTwinAddOutput(call, nullptr, -1, 0);
    }
    for (int64_t count = Number(); count > 0; --count) {
        const int32_t dtype = static_cast<int32_t>(Number());
        const std::vector<int64_t> dims = Numbers();
        opforgeTwinAddMember(call, isInput ? 1 : 0, dims.data(), static_cast<int64_t>(dims.size()), dtype);
    }
}

void AddAttribute(opforgeTwinCall* call, char kind)
{
    if (kind == 'i' || kind == 'b') {
        const int64_t value = Number();
        kind == 'i' ? opforgeTwinAddInt(call, value) : opforgeTwinAddBool(call, value != 0 ? 1 : 0);
    } else if (kind == 'I') {
        const std::vector<int64_t> values = Numbers();
        opforgeTwinAddInts(call, values.data(), values.size());
    } else if (kind == 'B') {
        const std::vector<int64_t> values = Numbers();
        opforgeTwinAddBools(call, values.data(), values.size());
    } else if (kind == 'F') {
        std::vector<float> values(static_cast<size_t>(Number()));
        for (float& value : values) {
            std::cin >> value;
        }
        opforgeTwinAddFloats(call, values.data(), values.size());
    } else if (kind == 'f') {
        float value = 0;
        std::cin >> value;
        opforgeTwinAddFloat(call, value);
    } else {
        std::string text;
        std::cin >> text;
        opforgeTwinAddText(call, text.c_str());
    }
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc != 4) {
        return 2;
    }
    dup2(STDOUT_FILENO, STDERR_FILENO);
    for (int64_t isTiling = 0; std::cin >> isTiling;) {
        std::deque<std::vector<int64_t>> kept;
        opforgeTwinCall* call = opforgeTwinCreateCall(argv[1]);
        for (const char input : std::string(argv[2])) {
            if (input == 'I' || input == 'O') {
                AddList(call, input == 'I');
            } else {
                AddTensor(call, input == 'i', kept);
            }
        }
        for (const char kind : std::string(argv[3])) {
            AddAttribute(call, kind);
        }
        const char* answer = isTiling != 0 ? opforgeTwinTile(call) : opforgeTwinInfer(call);
        std::cout << answer << std::endl;
        opforgeTwinDestroyCall(call);
    }
    return 0;
}
