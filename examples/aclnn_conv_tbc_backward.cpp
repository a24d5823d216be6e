// Calls aclnnConvTbcBackward as any application for CANN does: the gradients of a convolution over 16 steps of time, a
// batch of 2, from 8 channels to 4 by a kernel of 3, for two values of cubeMathType; then a call that must be refused.
// The same source builds with the CANN toolkit and, unchanged, with the CPU twin:
//   eval "g++ examples/aclnn_conv_tbc_backward.cpp $(opforge flags) -o build/conv" && build/conv
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_conv_tbc_backward.h"
#include "calls.h"

namespace {
constexpr int64_t kTime = 16;
constexpr int64_t kBatch = 2;
constexpr int64_t kIn = 8;
constexpr int64_t kOut = 4;
constexpr int64_t kTaps = 3;
constexpr int64_t kPad = 1;
constexpr int64_t kGradTime = kTime + 2 * kPad + 1 - kTaps;
constexpr int8_t kKeepDtype = 0;
constexpr int8_t kUseHf32 = 3;
constexpr int8_t kNoCubeMathType = 4;
constexpr int kInvalidParameter = 161002;

/// Numbers on the host and on the device.
struct Tensor {
    std::vector<float> values;
    Memory memory{nullptr, aclrtFree};
    std::unique_ptr<aclTensor, aclnnStatus (*)(const aclTensor*)> view{nullptr, aclDestroyTensor};

    size_t Bytes() const { return values.size() * sizeof(float); }

    /// A tensor of the numbers 1 / 3, 2 / 3, .. 7 / 3, over and over.
    int Create(const std::vector<int64_t>& shape)
    {
        std::vector<int64_t> strides(shape.size(), 1);
        for (size_t dim = shape.size() - 1; dim > 0; --dim) {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        values.resize(static_cast<size_t>(strides[0] * shape[0]));
        for (size_t index = 0; index < values.size(); ++index) {
            values[index] = static_cast<float>(index % 7 + 1) / 3.0F;
        }
        memory = OnDevice(Bytes());
        view.reset(aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_ND,
                                   shape.data(), shape.size(), memory.get()));
        RETURN_IF_FAILED(aclrtMemcpy(memory.get(), Bytes(), values.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE));
        return view == nullptr ? 1 : 0;
    }

    int Download()
    {
        RETURN_IF_FAILED(aclrtMemcpy(values.data(), Bytes(), memory.get(), Bytes(), ACL_MEMCPY_DEVICE_TO_HOST));
        return 0;
    }

    double LargestErrorAgainst(const std::vector<double>& expected) const
    {
        double largest = 0.0;
        for (size_t index = 0; index < values.size(); ++index) {
            const double error = std::fabs(static_cast<double>(values[index]) / expected[index] - 1.0);
            largest = std::fmax(largest, error);
        }
        return largest;
    }
};

/// What the gradients are, by the formulas.
struct Expected {
    std::vector<double> gradInput = std::vector<double>(kTime * kBatch * kIn);
    std::vector<double> gradWeight = std::vector<double>(kTaps * kIn * kOut);
    std::vector<double> gradBias = std::vector<double>(kOut);

    Expected(const std::vector<float>& grad, const std::vector<float>& input, const std::vector<float>& weight)
    {
        for (int64_t row = 0; row < kGradTime * kBatch; ++row) {
            for (int64_t out = 0; out < kOut; ++out) {
                const double gradient = grad[row * kOut + out];
                gradBias[out] += gradient;
                for (int64_t tap = 0; tap < kTaps; ++tap) {
                    const int64_t met = row + (tap - kPad) * kBatch;
                    for (int64_t in = 0; in < kIn && met >= 0 && met < kTime * kBatch; ++in) {
                        const int64_t at = (tap * kIn + in) * kOut + out;
                        gradInput[met * kIn + in] += gradient * static_cast<double>(weight[at]);
                        gradWeight[at] += gradient * static_cast<double>(input[met * kIn + in]);
                    }
                }
            }
        }
    }
};

struct Call {
    Tensor self;
    Tensor input;
    Tensor weight;
    Tensor bias;
    Tensor gradInput;
    Tensor gradWeight;
    Tensor gradBias;

    int Create()
    {
        RETURN_IF_FAILED(self.Create({kGradTime, kBatch, kOut}));
        RETURN_IF_FAILED(input.Create({kTime, kBatch, kIn}));
        RETURN_IF_FAILED(weight.Create({kTaps, kIn, kOut}));
        RETURN_IF_FAILED(bias.Create({kOut}));
        RETURN_IF_FAILED(gradInput.Create({kTime, kBatch, kIn}));
        RETURN_IF_FAILED(gradWeight.Create({kTaps, kIn, kOut}));
        RETURN_IF_FAILED(gradBias.Create({kOut}));
        return 0;
    }

    int Plan(int8_t cubeMathType, uint64_t* bytes, aclOpExecutor** executor) const
    {
        return aclnnConvTbcBackwardGetWorkspaceSize(self.view.get(), input.view.get(), weight.view.get(),
                                                    bias.view.get(), kPad, cubeMathType, gradInput.view.get(),
                                                    gradWeight.view.get(), gradBias.view.get(), bytes, executor);
    }

    /// Prints by how much the gradients of a cubeMathType differ from the formulas.
    int Run(const char* name, int8_t cubeMathType, aclrtStream stream)
    {
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        RETURN_IF_FAILED(Plan(cubeMathType, &bytes, &executor));
        const Memory workspace = bytes == 0 ? Memory{nullptr, aclrtFree} : OnDevice(bytes);
        RETURN_IF_FAILED(aclnnConvTbcBackward(workspace.get(), bytes, executor, stream));
        RETURN_IF_FAILED(aclrtSynchronizeStream(stream));
        RETURN_IF_FAILED(gradInput.Download() + gradWeight.Download() + gradBias.Download());
        const Expected expected(self.values, input.values, weight.values);
        std::printf("%s: largest relative error of gradInput %.1e, gradWeight %.1e, gradBias %.1e\n", name,
                    gradInput.LargestErrorAgainst(expected.gradInput),
                    gradWeight.LargestErrorAgainst(expected.gradWeight),
                    gradBias.LargestErrorAgainst(expected.gradBias));
        return 0;
    }

    /// A call that must be refused.
    int Mistake() const
    {
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        const int status = Plan(kNoCubeMathType, &bytes, &executor);
        std::printf("cubeMathType %d: refused with %d: %s\n", kNoCubeMathType, status, aclGetRecentErrMsg());
        return status == kInvalidParameter ? 0 : 1;
    }
};

int Run(aclrtStream stream)
{
    Call call;
    RETURN_IF_FAILED(call.Create());
    return call.Run("KEEP_DTYPE", kKeepDtype, stream) + call.Run("USE_HF32", kUseHf32, stream) + call.Mistake();
}
}  // namespace

int main()
{
    RETURN_IF_FAILED(aclInit(nullptr));
    RETURN_IF_FAILED(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    RETURN_IF_FAILED(aclrtCreateStream(&stream));
    const int status = Run(stream);
    RETURN_IF_FAILED(aclrtDestroyStream(stream));
    RETURN_IF_FAILED(aclrtResetDevice(0));
    RETURN_IF_FAILED(aclFinalize());
    return status == 0 ? 0 : 1;
}
