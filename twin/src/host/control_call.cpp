// Calls of single host functions.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/ge/names.h"
#include "host/aclnn/operator_call.h"
#include "host/gert/platform.h"
#include "host/gert/registry.h"
#include "kernel/exec/report_json.h"
#include "kernel/exec/text.h"
#include "opforge_twin/control.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::ErrorJson;
using opforge::twin::Quoted;
using opforge::twin::kernel::Text;

struct opforgeTwinCall {
    std::string opType;
    std::vector<Instances> inputs;
    std::vector<Instances> outputs;
    std::vector<std::optional<AttributeValue>> attributes;
};

namespace {

Instances InstancesOf(const int64_t* dims, int64_t rank, int32_t dtype, const void* values, uint64_t valueBytes)
{
    if (rank < 0) {
        return {};
    }
    Instance instance;
    instance.origin = ShapeOf(dims, static_cast<size_t>(rank));
    instance.storage = instance.origin;
    instance.dtype = static_cast<ge::DataType>(dtype);
    instance.values = values;
    instance.valueBytes = valueBytes;
    return {instance};
}

/// Finds an operator in the packages of ASCEND_CUSTOM_OPP_PATH and in explicitly loaded packages.
std::optional<Registered> Find(const std::string& opType, std::string& problem)
{
    std::optional<Registered> operation = Registry::Instance().FindAnywhere(opType);
    if (!operation || operation->definition == nullptr) {
        problem = Text(opType, operation ? ": no OpDef and no REG_OP is registered" : ": nothing is registered");
        return std::nullopt;
    }
    return operation;
}

/// Returns the outputs of the call and adds one instance for each missing output of the operator.
std::vector<Instances> OutputsOf(const opforgeTwinCall& call, const Registered& operation)
{
    std::vector<Instances> outputs = call.outputs;
    for (size_t i = outputs.size(); i < operation.definition->outputs.size(); ++i) {
        outputs.push_back({Instance()});
    }
    return outputs;
}

std::string InferText(const opforgeTwinCall& call)
{
    std::string problem;
    const std::optional<Registered> operation = Find(call.opType, problem);
    if (!operation) {
        return ErrorJson(problem);
    }
    const auto built =
        MakeCall(*operation, call.inputs, OutputsOf(call, *operation), call.attributes, CurrentSoc(), problem);
    if (built == nullptr || !RunInferShape(*operation, *built, problem) ||
        !RunInferDataType(*operation, *built, problem)) {
        return ErrorJson(problem);
    }
    std::string list;
    for (const TensorSlot& output : built->outputs) {
        list += Text(list.empty() ? "" : ", ", "{\"dims\": ", DimsText(output.tensor.GetOriginShape()),
                     ", \"dtype\": ", static_cast<int>(output.description.GetDataType()), "}");
    }
    return Text("{\"outputs\": [", list, "]}");
}

std::string InferRangeText(const opforgeTwinCall& call)
{
    std::string problem;
    const std::optional<Registered> operation = Find(call.opType, problem);
    if (!operation) {
        return ErrorJson(problem);
    }
    const auto built =
        MakeCall(*operation, call.inputs, OutputsOf(call, *operation), call.attributes, CurrentSoc(), problem);
    if (built == nullptr || !RunInferShapeRange(*operation, *built, problem)) {
        return ErrorJson(problem);
    }
    std::string list;
    for (const TensorSlot& output : built->outputs) {
        const gert::Range<gert::Shape>& range = output.ranges->shape;
        if (range.GetMin() == nullptr || range.GetMax() == nullptr) {
            return ErrorJson(Text(call.opType, ": the shape range function set an end of a range to null"));
        }
        list += Text(list.empty() ? "" : ", ", "{\"lowest\": ", DimsText(*range.GetMin()),
                     ", \"highest\": ", DimsText(*range.GetMax()), "}");
    }
    return Text("{\"outputs\": [", list, "]}");
}

std::string TileText(const opforgeTwinCall& call)
{
    std::string problem;
    const std::optional<Registered> operation = Find(call.opType, problem);
    if (!operation) {
        return ErrorJson(problem);
    }
    const auto built = MakeCall(*operation, call.inputs, call.outputs, call.attributes, CurrentSoc(), problem);
    if (built == nullptr || !RunTiling(*operation, *built, problem)) {
        return ErrorJson(problem);
    }
    const TilingOutcome& tiling = built->tiling;
    std::string hex;
    const auto* bytes = static_cast<const uint8_t*>(tiling.Data().GetData());
    for (size_t i = 0; i < tiling.Data().GetDataSize(); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(bytes[i]));
        hex += digits;
    }
    std::string workspaces;
    for (const size_t size : tiling.workspaces) {
        workspaces += Text(workspaces.empty() ? "" : ", ", size);
    }
    return Text("{\"tiling_key\": ", tiling.key, ", \"block_dim\": ", tiling.blockDim,
                ", \"schedule_mode\": ", tiling.scheduleMode, ", \"workspaces\": [", workspaces, "], \"data\": \"", hex,
                "\"}");
}

}  // namespace

opforgeTwinCall* opforgeTwinCreateCall(const char* opType)
{
    return new opforgeTwinCall{opType, {}, {}, {}};
}

void opforgeTwinDestroyCall(opforgeTwinCall* call)
{
    delete call;
}

void opforgeTwinAddInput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype, const void* values,
                         uint64_t valueBytes)
{
    call->inputs.push_back(InstancesOf(dims, rank, dtype, values, valueBytes));
}

void opforgeTwinSetRange(opforgeTwinCall* call, const int64_t* lowest, const int64_t* highest)
{
    for (Instance& instance : call->inputs.back()) {
        const size_t rank = instance.origin.GetDimNum();
        instance.lowest = ShapeOf(lowest, rank);
        instance.highest = ShapeOf(highest, rank);
    }
}

void opforgeTwinAddOutput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype)
{
    call->outputs.push_back(InstancesOf(dims, rank, dtype, nullptr, 0));
}

void opforgeTwinAddMember(opforgeTwinCall* call, int isInput, const int64_t* dims, int64_t rank, int32_t dtype)
{
    auto& parameters = isInput != 0 ? call->inputs : call->outputs;
    parameters.back().push_back(InstancesOf(dims, rank, dtype, nullptr, 0).front());
}

void opforgeTwinAddInt(opforgeTwinCall* call, int64_t value)
{
    call->attributes.emplace_back(value);
}
void opforgeTwinAddFloat(opforgeTwinCall* call, float value)
{
    call->attributes.emplace_back(value);
}
void opforgeTwinAddBool(opforgeTwinCall* call, int value)
{
    call->attributes.emplace_back(value != 0);
}
void opforgeTwinAddText(opforgeTwinCall* call, const char* value)
{
    call->attributes.emplace_back(std::string(value));
}

void opforgeTwinAddInts(opforgeTwinCall* call, const int64_t* values, uint64_t count)
{
    call->attributes.emplace_back(std::vector<int64_t>(values, values + count));
}

void opforgeTwinAddFloats(opforgeTwinCall* call, const float* values, uint64_t count)
{
    call->attributes.emplace_back(std::vector<float>(values, values + count));
}
void opforgeTwinAddBools(opforgeTwinCall* call, const int64_t* values, uint64_t count)
{
    call->attributes.emplace_back(std::vector<bool>(values, values + count));
}

void opforgeTwinAddDefault(opforgeTwinCall* call)
{
    call->attributes.emplace_back(std::nullopt);
}

const char* opforgeTwinInfer(opforgeTwinCall* call)
{
    thread_local std::string answer;
    answer = InferText(*call);
    return answer.c_str();
}

const char* opforgeTwinInferRange(opforgeTwinCall* call)
{
    thread_local std::string answer;
    answer = InferRangeText(*call);
    return answer.c_str();
}

const char* opforgeTwinTile(opforgeTwinCall* call)
{
    thread_local std::string answer;
    answer = TileText(*call);
    return answer.c_str();
}
