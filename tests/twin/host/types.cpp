// Tests the value types of the host side in the same way as operator host code uses them. Prints the failed checks.
#include <cstdio>
#include <cstring>
#include <vector>

#include "aclnn_kernels/common/op_error_check.h"
#include "graph/operator.h"
#include "graph/operator_reg.h"
#include "opdev/make_op_executor.h"
#include "opdev/platform.h"
#include "opdev/shape_utils.h"
#include "opdev/tensor_view_utils.h"
#include "register/op_def_registry.h"
#include "register/register.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

namespace {

int failures = 0;

#define EXPECT(condition)                                       \
    do {                                                        \
        if (!(condition)) {                                     \
            std::printf("line %d: %s\n", __LINE__, #condition); \
            ++failures;                                         \
        }                                                       \
    } while (false)

void TestStrings()
{
    const ge::AscendString name("abc");
    const ge::AscendString none;
    EXPECT(name.GetLength() == 3 && name == "abc" && name != "abd" && name < ge::AscendString("b"));
    EXPECT(std::strcmp(none.GetString(), "") == 0 && none.GetLength() == 0);
    EXPECT(ge::AscendString("a\0b", 3).GetLength() == 3);
    EXPECT(name.Find(ge::AscendString("c")) == 2);
}

void TestOperatorAttributes()
{
    ge::Operator node("name", "Type");
    node.SetAttr("int", int64_t{1} << 40).SetAttr("float", 0.5F).SetAttr("flag", true).SetAttr("text", "abc");
    node.SetAttr("ints", std::vector<int64_t>{1, 2});
    node.SetAttr(std::string("texts"), std::vector<std::string>{"a", ""});
    int64_t wide = 0;
    int32_t narrow = 7;
    uint32_t positive = 7;
    float real = 0;
    bool flag = false;
    ge::AscendString text;
    std::string standard;
    std::vector<int32_t> ints;
    std::vector<ge::AscendString> texts;
    EXPECT(node.GetAttr("int", wide) == ge::GRAPH_SUCCESS && wide == int64_t{1} << 40);
    EXPECT(node.GetAttr("int", narrow) == ge::GRAPH_FAILED);
    EXPECT(node.SetAttr("small", int32_t{-3}).GetAttr("small", wide) == ge::GRAPH_SUCCESS && wide == -3);
    EXPECT(node.GetAttr("small", positive) == ge::GRAPH_FAILED);
    EXPECT(node.GetAttr("float", real) == ge::GRAPH_SUCCESS && real == 0.5F);
    EXPECT(node.GetAttr("float", wide) == ge::GRAPH_FAILED);
    EXPECT(node.GetAttr("flag", flag) == ge::GRAPH_SUCCESS && flag);
    EXPECT(node.GetAttr("text", text) == ge::GRAPH_SUCCESS && text == "abc");
    EXPECT(node.GetAttr(std::string("text"), standard) == ge::GRAPH_SUCCESS && standard == "abc");
    EXPECT(node.GetAttr("ints", ints) == ge::GRAPH_SUCCESS && ints == (std::vector<int32_t>{1, 2}));
    EXPECT(node.GetAttr("texts", texts) == ge::GRAPH_SUCCESS && texts.size() == 2 && texts[1] == "");
    EXPECT(node.GetAttr("missing", wide) == ge::GRAPH_FAILED);
    const ge::Operator copy = node;
    node.SetAttr("later", 1.0F);
    EXPECT(copy.GetAttr("later", real) == ge::GRAPH_SUCCESS);
    std::map<ge::AscendString, ge::AscendString> types;
    EXPECT(node.GetAllAttrNamesAndTypes(types) == ge::GRAPH_SUCCESS && types["ints"] == "VT_LIST_INT");
    node.DynamicInputRegister("args", 2);
    EXPECT(node.GetInputsSize() == 2 && node.GetDynamicInputNum("args") == 2);
    EXPECT(ge::Operator().IsEmpty() && ge::Operator().GetAttr("x", wide) == ge::GRAPH_FAILED);
}

void TestShapes()
{
    gert::Shape shape{2, 3};
    EXPECT(shape.GetDimNum() == 2 && shape.GetShapeSize() == 6 && shape[1] == 3 && shape == (gert::Shape{2, 3}));
    shape.AppendDim(-1);
    EXPECT(shape.GetShapeSize() < 0 && shape.GetDim(2) == -1);
    shape.SetScalar();
    EXPECT(shape.IsScalar() && shape.GetShapeSize() == 1);
    op::Shape wide;
    EXPECT(op::BroadcastInferShape({4, 1, 3}, {5, 1}, wide) && wide == (op::Shape{4, 5, 3}));
    EXPECT(!op::CheckBroadcastShape({2}, {3}));
    EXPECT(op::ToShapeVector({7, 8}) == (op::ShapeVector{7, 8}));
    EXPECT(op::ToString(op::Shape{7, 8}) == "[7, 8]" && op::ToString(ge::DT_BF16) == "bfloat16");
}

BEGIN_TILING_DATA_DEF(Numbers)
TILING_DATA_FIELD_DEF(int32_t, small);
TILING_DATA_FIELD_DEF(int64_t, wide);
TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, list);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Types, Numbers)

BEGIN_TILING_DATA_DEF(Nested)
TILING_DATA_FIELD_DEF(int16_t, first);
TILING_DATA_FIELD_DEF_STRUCT(Numbers, numbers);
TILING_DATA_FIELD_DEF(int8_t, last);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(NestedTypes, Nested)

void TestTilingData()
{
    Numbers numbers;
    uint16_t list[29] = {1, 2, 3};
    numbers.set_small(-5);
    numbers.set_wide(int64_t{1} << 33);
    numbers.set_list(list);
    EXPECT(numbers.GetDataSize() == 24 && std::strcmp(numbers.GetTilingClassName(), "Numbers") == 0);
    const auto block = gert::TilingData::CreateCap(64);
    auto* raw = reinterpret_cast<gert::TilingData*>(block.get());
    numbers.SaveToBuffer(raw->GetData(), raw->GetCapacity());
    int64_t wide = 0;
    std::memcpy(&wide, static_cast<const uint8_t*>(raw->GetData()) + 8, sizeof(wide));
    EXPECT(wide == int64_t{1} << 33 && numbers.get_small() == -5 && numbers.get_list()[2] == 3);
    EXPECT(raw->Append(wide) == ge::GRAPH_SUCCESS && raw->GetDataSize() == 8);
    EXPECT(raw->Append(list, 29) == ge::GRAPH_FAILED && raw->GetDataSize() == 8);
}

void TestNestedTilingData()
{
    Nested nested;
    nested.numbers.set_wide(77);
    nested.set_last(5);
    EXPECT(nested.GetDataSize() == 40 && nested.numbers.get_wide() == 77);
    uint8_t bytes[40] = {};
    nested.SaveToBuffer(bytes, sizeof(bytes));
    EXPECT(bytes[8 + 8] == 77 && bytes[32] == 5);
    nested.SetDataPtr(bytes);
    nested.numbers.set_small(3);
    EXPECT(bytes[8] == 3 && nested.get_last() == 5);
}

bool CheckTensor(const aclTensor* tensor)
{
    OP_CHECK_NULL(tensor, return false);
    const std::initializer_list<op::DataType> supported = {ge::DT_FLOAT16};
    OP_CHECK_DTYPE_NOT_SUPPORT(tensor, supported, return false);
    OP_CHECK_MIN_DIM(tensor, 2, return false);
    OP_CHECK_MAX_DIM(tensor, 3, return false);
    return true;
}

void TestChecksAndViews()
{
    const int64_t dims[] = {2, 3};
    const int64_t strides[] = {3, 1};
    aclTensor* tensor = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    EXPECT(!CheckTensor(nullptr) && std::strstr(aclGetRecentErrMsg(), "tensor: got null") != nullptr);
    EXPECT(!CheckTensor(tensor) && std::strstr(aclGetRecentErrMsg(), "expected one of float16") != nullptr);
    tensor->SetDataType(ge::DT_FLOAT16);
    EXPECT(CheckTensor(tensor) && op::IsContiguous(tensor));
    tensor->SetViewStrides(op::Strides{1, 2});
    EXPECT(!op::IsContiguous(tensor) && op::Validate(tensor));
    tensor->SetViewOffset(1);
    EXPECT(!op::Validate(tensor));
    EXPECT(aclDestroyTensor(tensor) == ACLNN_SUCCESS);
}

void TestScalarsAndHostTensors()
{
    float value = 2.5F;
    aclScalar* scalar = aclCreateScalar(&value, ACL_FLOAT);
    EXPECT(scalar->ToDouble() == 2.5 && scalar->ToInt32() == 2 && scalar->ToBool() && scalar->ToFp16().val == 0x4100);
    aclOpExecutor executor;
    const aclTensor* converted = executor.ConvertToTensor(scalar, ge::DT_BF16);
    EXPECT(converted->GetViewShape().IsScalar() && *static_cast<uint16_t*>(converted->GetData()) == 0x4020);
    const int64_t numbers[] = {1, -2, 300};
    aclTensor* host = executor.AllocHostTensor(numbers, 3, ge::DT_INT32);
    EXPECT(host->GetPlacement() == gert::kOnHost && static_cast<int32_t*>(host->GetData())[1] == -2);
    host->SetIntData(numbers + 2, 1, ge::DT_INT32);  // the count is wrong, so nothing changes
    EXPECT(static_cast<int32_t*>(host->GetData())[0] == 1);
    EXPECT(executor.AllocHostTensor(numbers, 3, ge::DT_STRING) == nullptr);
    EXPECT(executor.GetWorkspaceSize() == 0);
    const aclTensor* slot = executor.AllocTensor({100}, ge::DT_FLOAT);
    const aclTensor* next = executor.AllocTensor({1}, ge::DT_FLOAT);
    EXPECT(executor.GetWorkspaceSize() == 2048);
    EXPECT(slot->GetWorkspaceOffset() == 0 && next->GetWorkspaceOffset() == 1024);
    EXPECT(aclDestroyScalar(scalar) == ACLNN_SUCCESS);
}

void TestPlatform()
{
    auto* platform = platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B3");
    uint64_t bytes = 0;
    platform->GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
    EXPECT(bytes == 196352 && platform->GetCoreNumAiv() == 40 && platform->GetCoreNumAic() == 20);
    EXPECT(platform->GetLibApiWorkSpaceSize() == 16U << 20);
    EXPECT(platform->GetResCubeGroupWorkSpaceSize() == 1U << 20 &&
           platform->GetResGroupBarrierWorkSpaceSize() == 1U << 20);
    auto* other = platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910_9391");
    EXPECT(other->GetResCubeGroupWorkSpaceSize() == ~0U && other->GetResGroupBarrierWorkSpaceSize() == ~0U);
    EXPECT(platform->GetSocVersion() == platform_ascendc::SocVersion::ASCEND910B);
    EXPECT(platform->CalcTschBlockDim(40, 20, 40) == 20 && platform->CalcTschBlockDim(3, 20, 40) == 2);
    EXPECT(platform_ascendc::PlatformAscendCManager::GetInstance("Ascend999") == nullptr);
    EXPECT(op::GetCurrentPlatformInfo().GetSocVersion() == op::SocVersion::ASCEND910B);
}

}  // namespace

int main()
{
    TestStrings();
    TestOperatorAttributes();
    TestShapes();
    TestTilingData();
    TestNestedTilingData();
    TestChecksAndViews();
    TestScalarsAndHostTensors();
    TestPlatform();
    return failures == 0 ? 0 : 1;
}
