// Runs a model with custom operators: ort_session LIBONNXRUNTIME MODEL LIBRARY. Prints the elements of the output.
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ort_abi.h"

namespace {

using opforge::ort::ApiBase;
using opforge::ort::Slot;
using opforge::ort::Status;

const Slot* slots = nullptr;

/// Calls a function of the table by its position.
template <typename... Arguments>
void Call(size_t slot, Arguments... arguments)
{
    using Function = Status*(Arguments...);
    if (Status* status = reinterpret_cast<Function*>(slots[slot])(arguments...)) {
        std::fprintf(stderr, "%s\n", opforge::ort::Api(slots).GetErrorMessage(status));
        std::exit(1);
    }
}

}  // namespace

int main(int /*count*/, char** words)
{
    void* runtime = dlopen(words[1], RTLD_NOW);
    if (runtime == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    const auto getBase = reinterpret_cast<const ApiBase* (*)()>(dlsym(runtime, "OrtGetApiBase"));
    slots = getBase()->GetApi(opforge::ort::kApiVersion);
    constexpr int kWarning = 3;
    constexpr int64_t kInt64 = 7;
    constexpr int64_t kFloat = 1;
    void* env = nullptr;
    void* options = nullptr;
    void* session = nullptr;
    void* memory = nullptr;
    void* handle = nullptr;
    Call(3, kWarning, "opforge", &env);
    Call(10, &options);
    Call(29, options, static_cast<const char*>(words[3]), &handle);
    Call(7, env, static_cast<const char*>(words[2]), options, &session);
    Call(69, 0, 0, &memory);
    std::array<float, 18> x = {};
    x.fill(1);
    std::array<int64_t, 2> ends = {2, 6};
    const std::array<int64_t, 2> dims = {6, 3};
    const std::array<int64_t, 1> count = {2};
    std::array<void*, 2> inputs = {};
    void* output = nullptr;
    Call(49, memory, static_cast<void*>(x.data()), sizeof(x), dims.data(), dims.size(), kFloat, &inputs[0]);
    Call(49, memory, static_cast<void*>(ends.data()), sizeof(ends), count.data(), count.size(), kInt64, &inputs[1]);
    const std::array<const char*, 2> names = {"x", "i"};
    const std::array<const char*, 1> results = {"y"};
    Call(9, session, static_cast<void*>(nullptr), names.data(), inputs.data(), size_t{2}, results.data(), size_t{1},
         &output);
    float* y = nullptr;
    Call(51, output, &y);
    std::printf("%g %g %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5]);
    // 92 and the following functions release objects; the session is released before the library.
    for (const auto& [slot, object] : {std::pair<size_t, void*>{96, output},
                                       {96, inputs[0]},
                                       {96, inputs[1]},
                                       {95, session},
                                       {100, options},
                                       {94, memory},
                                       {92, env}}) {
        reinterpret_cast<void (*)(void*)>(slots[slot])(object);
    }
    return 0;
}
