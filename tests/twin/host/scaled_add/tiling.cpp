#include <algorithm>
#include <cstring>

#include "acl/acl.h"
#include "exe_graph/runtime/tiling_context.h"
#include "register/op_impl_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling_data.h"

namespace {

struct CompileInfo {};

void ReadLimit(const gert::Tensor* limit, ScaledAddTilingData& data)
{
    const int64_t* values = limit == nullptr ? nullptr : limit->GetData<int64_t>();
    data.limitCount = limit == nullptr ? -2 : values == nullptr ? -1 : limit->GetShapeSize();
    for (int64_t i = 0; i < data.limitCount; ++i) {
        data.limitSum += values[i];
    }
}

ge::graphStatus Tiling(gert::TilingContext* context)
{
    const gert::RuntimeAttrs* attrs = context->GetAttrs();
    const char* mode = attrs->GetStr(1);
    const gert::Shape& x = context->GetRequiredInputShape(0)->GetStorageShape();
    ScaledAddTilingData data;
    data.rows = x.GetDim(0);
    data.width = x.GetDim(1);
    data.inputInstances = static_cast<int64_t>(context->GetComputeNodeInputNum());
    const gert::StorageShape* second = context->GetInputShape(1);
    data.secondInstanceRank = second == nullptr ? -1 : static_cast<int64_t>(second->GetStorageShape().GetDimNum());
    data.hasBias = context->GetOptionalInputShape(1) != nullptr ? 1 : 0;
    data.biasDtype = data.hasBias != 0 ? static_cast<int64_t>(context->GetOptionalInputDesc(1)->GetDataType()) : -1;
    ReadLimit(context->GetOptionalInputTensor(2), data);
    data.factor = *attrs->GetFloat(0);
    data.modeLength = static_cast<int64_t>(std::strlen(mode));
    const auto* axes = attrs->GetListInt(2);
    for (size_t i = 0; i < axes->GetSize(); ++i) {
        data.axesSum += axes->GetData()[i];
    }
    const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
    data.vectorCores = platform.GetCoreNumAiv();
    data.isOverrun = std::strcmp(mode, "overrun") == 0 ? 1 : 0;
    if (std::strcmp(mode, "refuse") == 0) {
        return ge::GRAPH_FAILED;
    }
    if (std::strcmp(mode, "refuse with a reason") == 0) {
        aclAppLog(ACL_ERROR, __func__, __FILE__, __LINE__, "rows: got %ld, expected more",
                  static_cast<long>(data.rows));
        return ge::GRAPH_FAILED;
    }
    if (std::strcmp(mode, "read a dim behind the last") == 0) {
        data.width = x.GetDim(2);
    }
    if (std::strcmp(mode, "read the factor as int") == 0 && attrs->GetInt(0) != nullptr) {
        return ge::GRAPH_FAILED;
    }
    ScaledAddTilingData* place = context->GetTilingData<ScaledAddTilingData>();
    if (place == nullptr) {
        return ge::GRAPH_FAILED;
    }
    *place = data;
    context->SetTilingKey(7);
    if (std::strcmp(mode, "set no block dim") != 0) {
        context->SetBlockDim(static_cast<uint32_t>(std::clamp<int64_t>(data.rows, 1, data.vectorCores)));
    }
    const bool wantsWorkspace = std::strcmp(mode, "no workspace") != 0;
    *context->GetWorkspaceSizes(1) = wantsWorkspace ? platform.GetLibApiWorkSpaceSize() + 1000 : 0;
    return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ScaledAdd).Tiling(Tiling).TilingParse<CompileInfo>(
    static_cast<gert::OpImplRegisterV2::KernelFunc>([](gert::KernelContext*) -> uint32_t { return 0; }));

}  // namespace
