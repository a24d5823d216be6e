// Level 0 calls of package operators: INFER_SHAPE and ADD_TO_LAUNCHER_LIST_AICORE.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/gert/access.h"
#include "host/acl/errors.h"
#include "host/aclnn/argument_values.h"
#include "host/aclnn/executor.h"
#include "host/aclnn/kernel_library.h"
#include "host/ge/names.h"
#include "host/aclnn/open_view.h"
#include "host/aclnn/operator_call.h"
#include "host/gert/platform.h"
#include "host/gert/registry.h"
#include "host/aclnn/reports.h"
#include "kernel/exec/text.h"
#include "opdev/op_errno.h"
#include "opdev/tensor_view_utils.h"
#include "opforge_twin/launch.h"
#include "opforge_twin/options.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

struct Arguments {
    std::vector<std::vector<TensorArgument>> inputs;
    std::vector<std::vector<TensorArgument>> outputs;
    std::vector<std::optional<AttributeValue>> attributes;
};

bool AddTensors(const OpArgument& argument, std::vector<std::vector<TensorArgument>>& parameters, std::string& problem)
{
    if (std::holds_alternative<std::monostate>(argument)) {
        parameters.emplace_back();
    } else if (const auto* tensor = std::get_if<TensorArgument>(&argument)) {
        parameters.push_back({*tensor});
    } else if (const auto* tensors = std::get_if<std::vector<TensorArgument>>(&argument)) {
        parameters.push_back(*tensors);
    } else {
        problem = Text("argument ", parameters.size(), " is an attribute, expected a tensor");
    }
    return problem.empty();
}

bool Sort(std::initializer_list<ArgumentGroup> groups, Arguments& sorted, std::string& problem)
{
    for (const ArgumentGroup& group : groups) {
        for (const OpArgument& argument : group.Values().items) {
            if (group.Role() != ArgumentRole::kAttribute) {
                auto& parameters = group.Role() == ArgumentRole::kInput ? sorted.inputs : sorted.outputs;
                if (!AddTensors(argument, parameters, problem)) {
                    return false;
                }
            } else if (const auto* value = std::get_if<AttributeValue>(&argument)) {
                sorted.attributes.emplace_back(*value);
            } else if (std::holds_alternative<std::monostate>(argument)) {
                sorted.attributes.emplace_back(std::nullopt);
            } else {
                problem = Text("attribute ", sorted.attributes.size(), " is a tensor, expected a value");
                return false;
            }
        }
    }
    return true;
}

Instance InstanceOf(const aclTensor& tensor)
{
    Instance instance;
    instance.origin = tensor.GetOriginalShape();
    instance.storage = tensor.GetStorageShape();
    instance.dtype = tensor.GetDataType();
    instance.format = tensor.GetStorageFormat();
    if (tensor.GetPlacement() == gert::kOnHost) {
        instance.values = tensor.GetData();
        instance.valueBytes = ViewOf(tensor, "").ExtentBytes();
    }
    return instance;
}

std::vector<Instances> InstancesOf(const std::vector<std::vector<TensorArgument>>& parameters)
{
    std::vector<Instances> all;
    for (const auto& tensors : parameters) {
        Instances& instances = all.emplace_back();
        for (const TensorArgument& argument : tensors) {
            instances.push_back(InstanceOf(*argument.tensor));
        }
    }
    return all;
}

std::vector<ge::DataType> DtypesOf(const std::vector<std::vector<TensorArgument>>& parameters)
{
    std::vector<ge::DataType> dtypes;
    for (const auto& tensors : parameters) {
        dtypes.push_back(tensors.empty() ? ge::DT_UNDEFINED : tensors.front().tensor->GetDataType());
    }
    return dtypes;
}

std::optional<Registered> FindOperator(const char* opType, const void* caller)
{
    std::optional<Registered> found = Registry::Instance().Find(opType, caller);
    if (found && found->definition != nullptr) {
        return found;
    }
    std::string problem = Text(opType, found ? ": no OpDef and no REG_OP" : ": nothing", " is registered for it in");
    for (const Package* package : Registry::Instance().SearchOrder(caller)) {
        problem += package->vendorDir.empty() ? " the process" : Text(" ", package->vendorDir, ",");
        for (const std::string& failure : package->problems) {
            problem += Text(" (", failure, ")");
        }
    }
    AddError(problem);
    return std::nullopt;
}

/// Level 0 kernels receive addresses and shapes, but no strides.
bool CheckDense(const std::vector<Parameter>& parameters, const std::vector<std::vector<TensorArgument>>& arguments,
                std::string& problem)
{
    for (size_t i = 0; i < arguments.size() && i < parameters.size(); ++i) {
        for (const TensorArgument& argument : arguments[i]) {
            const aclTensor& tensor = *argument.tensor;
            const bool isPlain = tensor.GetStorageFormat() == tensor.GetViewFormat();
            if (!op::IsContiguous(&tensor) || (isPlain && tensor.GetStorageShape() != tensor.GetViewShape())) {
                problem =
                    Text(parameters[i].name, " has shape ", DimsText(tensor.GetViewShape()), ", strides ",
                         DimsText(tensor.GetViewStrides()), " and storage shape ", DimsText(tensor.GetStorageShape()),
                         ": a kernel would read it as dense; call "
                         "l0op::Contiguous for inputs, l0op::ViewCopy for outputs");
                return false;
            }
        }
    }
    return true;
}

constexpr int kLargestElement = 16;  // larger results of GetSizeByDataType count bits

class KernelTask : public PlannedTask {
public:
    /// views[i] is the memory of argument holders[i]; arguments without a view are absent.
    KernelTask(LaunchRequest request, std::vector<View> views, std::vector<size_t> holders, uint64_t workspaceBytes)
        : request_(std::move(request)),
          views_(std::move(views)),
          holders_(std::move(holders)),
          scratch_(std::make_shared<aclStorage>())
    {
        scratch_->fromWorkspace = true;
        scratch_->bytes = workspaceBytes;
    }

    std::shared_ptr<aclStorage> Scratch() const override { return scratch_; }
    std::vector<View> Views() const override { return views_; }

    Task Place(const std::vector<PlacedView>& views, void* scratch) const override
    {
        return [request = request_, views, holders = holders_, scratch, bytes = scratch_->bytes] {
            return Run(request, views, holders, scratch, bytes);
        };
    }

private:
    static TaskResult Run(LaunchRequest request, const std::vector<PlacedView>& views,
                          const std::vector<size_t>& holders, void* scratch, uint64_t bytes)
    {
        std::vector<OpenView> open(views.size());
        std::string problem;
        uint64_t minimalBytes = 0;
        for (size_t i = 0; i < views.size(); ++i) {
            if (!Open(views[i], open[i], problem)) {
                return DeviceFailure(request.opType, problem);
            }
            GmArgument& argument = request.arguments[holders[i]];
            argument.data = open[i].data;
            argument.bytes = views[i].view.ExtentBytes();
            argument.misalignment = reinterpret_cast<uintptr_t>(views[i].address) % DeviceAllocation::kAlignment;
            minimalBytes += argument.bytes;
        }
        DeviceSpan workspace;
        if (bytes != 0) {
            if (!DeviceMemory::Instance().Resolve(scratch, bytes, workspace, problem)) {
                return DeviceFailure(request.opType, Text("workspace: ", problem));
            }
            request.workspace = workspace.data;
            request.workspaceBytes = bytes;
        }
        const LaunchReport report = Launch(request, ProcessOptions());
        KeepReport(report, minimalBytes);
        const auto mistake = std::find_if(report.findings.begin(), report.findings.end(),
                                          [](const Finding& finding) { return !finding.warning; });
        if (mistake == report.findings.end()) {
            return {};
        }
        const Finding& first = *mistake;
        return DeviceFailure(
            request.opType,
            Text(first.where, first.where.empty() ? "" : ": ", first.kind,
                 first.block < 0 ? std::string() : Text(" (block ", first.block, ", pipe ", first.pipe, ")"), ": ",
                 first.message));
    }

    LaunchRequest request_;
    std::vector<View> views_;
    std::vector<size_t> holders_;
    std::shared_ptr<aclStorage> scratch_;
};

/// Adds the facts about a tensor that messages and checks of its use need.
void Describe(const aclTensor& tensor, GmArgument& argument)
{
    const gert::Shape& shape = tensor.GetStorageShape();
    for (size_t dim = 0; dim < shape.GetDimNum(); ++dim) {
        argument.shape.push_back(shape.GetDim(dim));
    }
    const int bytes = ge::GetSizeByDataType(tensor.GetDataType());
    argument.elementBytes = bytes > 0 && bytes <= kLargestElement ? bytes : 0;
    argument.hasPadding = shape.GetShapeSize() != tensor.GetOriginalShape().GetShapeSize();
}

void AddLaunchArguments(const std::vector<Parameter>& parameters,
                        const std::vector<std::vector<TensorArgument>>& arguments, bool isOutput,
                        LaunchRequest& request, std::vector<View>& views, std::vector<size_t>& holders)
{
    for (size_t i = 0; i < arguments.size(); ++i) {
        // The kernel receives a null pointer for an empty list.
        const bool isList = parameters[i].kind == ParameterKind::kDynamic && !arguments[i].empty();
        const auto add = [&](const std::string& name, const aclTensor* tensor) {
            GmArgument& argument = request.arguments.emplace_back();
            argument.name = name;
            argument.isOutput = isOutput;
            argument.isInput = !isOutput;
            argument.isHostList = parameters[i].valueDepend;
            if (tensor != nullptr) {
                Describe(*tensor, argument);
                views.push_back(ViewOf(*tensor, name));
                holders.push_back(request.arguments.size() - 1);
            }
        };
        if (!isList) {
            add(parameters[i].name, arguments[i].empty() ? nullptr : arguments[i].front().tensor);
            continue;
        }
        const size_t descriptor = request.arguments.size();
        GmArgument& list = request.arguments.emplace_back();
        list.name = Text("the descriptor of ", parameters[i].name);
        list.isInput = list.isHostList = list.isList = true;
        for (size_t member = 0; member < arguments[i].size(); ++member) {
            request.arguments[descriptor].members.push_back(request.arguments.size());
            add(Text(parameters[i].name, "[", member, "]"), arguments[i][member].tensor);
            request.arguments.back().isMember = true;
        }
    }
}

/// Returns whether an operator without outputs may overwrite an input; a tensor of a list has the name `x[0]`.
bool IsOverwritten(const std::string& name)
{
    const std::string names = ProcessOptions().overwritten;
    return names == "*" || ("," + names + ",").find("," + name.substr(0, name.find('[')) + ",") != std::string::npos;
}

/// An input and an output with the same name are one tensor that is updated in place.
void MarkUpdated(LaunchRequest& request, bool hasOutputs)
{
    for (GmArgument& input : request.arguments) {
        input.isOutput = input.isOutput || (!hasOutputs && !input.isHostList && IsOverwritten(input.name));
    }
    for (GmArgument& input : request.arguments) {
        for (GmArgument& output : request.arguments) {
            if (input.isInput && output.isOutput && input.name == output.name) {
                input.isOutput = output.isInput = true;
            }
        }
    }
}

LaunchRequest RequestOf(const OperatorCall& call, void* function)
{
    LaunchRequest request;
    request.opType = call.opType;
    request.function = function;
    const gert::TilingData& data = call.tiling.Data();
    const auto* bytes = static_cast<const uint8_t*>(data.GetData());
    request.tiling.assign(bytes, bytes + data.GetDataSize());
    request.tilingKey = call.tiling.key;
    request.blockNum = call.tiling.blockDim;
    request.taskType = "AIV_ONLY";
    request.soc = call.soc->name;
    request.arch = call.soc->arch;  // the folder of the kernel is that of the SoC
    return request;
}

aclnnStatus Refuse(aclnnStatus status, const std::string& text)
{
    AddError(text);
    return status;
}

void SetShape(aclTensor& tensor, const gert::Shape& shape)
{
    tensor.SetOriginalShape(shape);
    tensor.SetStorageShape(shape);
    tensor.SetViewShape(shape);
}

}  // namespace

aclnnStatus InferShape(const char* opType, std::initializer_list<ArgumentGroup> groups)
{
    const void* const caller = __builtin_return_address(0);
    Arguments arguments;
    std::string problem;
    if (!Sort(groups, arguments, problem)) {
        return Refuse(ACLNN_ERR_INNER, Text(opType, ": ", problem));
    }
    const std::optional<Registered> operation = FindOperator(opType, caller);
    if (!operation) {
        return ACLNN_ERR_INNER_INFERSHAPE_ERROR;
    }
    const std::unique_ptr<OperatorCall> call =
        MakeCall(*operation, InstancesOf(arguments.inputs), InstancesOf(arguments.outputs), arguments.attributes,
                 CurrentSoc(), problem);
    if (call == nullptr || !RunInferShape(*operation, *call, problem)) {
        return Refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR, problem);
    }
    size_t slot = 0;
    for (const auto& tensors : arguments.outputs) {
        for (const TensorArgument& output : tensors) {
            const gert::Shape& shape = call->outputs[slot++].tensor.GetOriginShape();
            if (output.writable == nullptr || shape.GetShapeSize() < 0) {
                return Refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR,
                              output.writable == nullptr
                                  ? Text(opType, ": output ", slot - 1, " is const, its shape cannot be set")
                                  : Text(opType, ": inferred ", DimsText(shape), " from known shapes"));
            }
            SetShape(*output.writable, shape);
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus AddAicoreTask(aclOpExecutor* executor, const char* opType, std::initializer_list<ArgumentGroup> groups)
{
    const void* const caller = __builtin_return_address(0);
    Arguments arguments;
    std::string problem;
    if (executor == nullptr) {
        return Refuse(ACLNN_ERR_INNER_NULLPTR, Text(opType, ": executor is null"));
    }
    if (!Sort(groups, arguments, problem)) {
        return Refuse(ACLNN_ERR_INNER, Text(opType, ": ", problem));
    }
    const std::optional<Registered> operation = FindOperator(opType, caller);
    if (!operation) {
        return ACLNN_ERR_INNER_FIND_KERNEL_ERROR;
    }
    const SocFigures& soc = CurrentSoc();
    const std::unique_ptr<OperatorCall> call = MakeCall(
        *operation, InstancesOf(arguments.inputs), InstancesOf(arguments.outputs), arguments.attributes, soc, problem);
    if (call == nullptr) {
        return Refuse(ACLNN_ERR_INNER, problem);
    }
    const Definition& definition = *operation->definition;
    if (!CheckDense(definition.inputs, arguments.inputs, problem) ||
        !CheckDense(definition.outputs, arguments.outputs, problem)) {
        return Refuse(ACLNN_ERR_INNER, Text(opType, ": ", problem));
    }
    void* const function =
        FindKernel(*operation, {DtypesOf(arguments.inputs), DtypesOf(arguments.outputs)}, soc, caller, problem);
    if (function == nullptr) {
        return Refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, problem);
    }
    if (!RunTiling(*operation, *call, problem)) {
        return Refuse(ACLNN_ERR_INNER_TILING_ERROR, problem);
    }
    LaunchRequest request = RequestOf(*call, function);
    std::vector<View> views;
    std::vector<size_t> holders;
    AddLaunchArguments(definition.inputs, arguments.inputs, false, request, views, holders);
    AddLaunchArguments(definition.outputs, arguments.outputs, true, request, views, holders);
    MarkUpdated(request, !definition.outputs.empty());
    uint64_t workspaceBytes = 0;
    for (const size_t bytes : call->tiling.workspaces) {
        workspaceBytes += bytes;
    }
    AddTask(*executor,
            std::make_unique<KernelTask>(std::move(request), std::move(views), std::move(holders), workspaceBytes));
    return ACLNN_SUCCESS;
}

}  // namespace opforge::twin::host
