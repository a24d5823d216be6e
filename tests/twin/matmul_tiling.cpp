// Chooses tiling data for the tests: numbers in, TCubeTiling out.
#include "adv_api/matmul/bmm_tiling.h"
#include "adv_api/matmul/matmul_tiling.h"

using matmul_tiling::CubeFormat;
using matmul_tiling::DataType;
using matmul_tiling::TPosition;

/// `given`: m, n, k, cores, type, transposed A and B, bias, fixed baseM, baseN and baseK, C in the unified buffer,
/// split of k, traverse, sparse B. Both forms of GetTiling must agree.
extern "C" __attribute__((visibility("default"))) int64_t ChooseTiling(const int32_t* given, int32_t* chosen)
{
    matmul_tiling::MultiCoreMatmulTiling api(*platform_ascendc::PlatformAscendCManager::GetInstance("Ascend910B1"));
    const auto type = static_cast<DataType>(given[4]);
    api.SetDim(given[3]);
    api.SetAType(TPosition::GM, CubeFormat::ND, type, given[5] != 0);
    api.SetBType(TPosition::GM, CubeFormat::ND, type, given[6] != 0);
    api.SetCType(given[11] != 0 ? TPosition::VECIN : TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT);
    api.SetBiasType(TPosition::GM, CubeFormat::ND, DataType::DT_FLOAT);
    api.SetOrgShape(given[0], given[1], given[2]);
    api.SetShape(given[0], given[1], given[2]);
    api.EnableBias(given[7] != 0);
    api.SetSparse(given[14] != 0);
    api.SetBufferSpace(-1, -1, -1);
    api.EnableMultiCoreSplitK(given[12] != 0);
    api.SetTraverse(static_cast<matmul_tiling::MatrixTraverse>(given[13]));
    if (api.SetFixSplit(given[8], given[9], given[10]) != 0) {
        return -2;
    }
    AscendC::tiling::TCubeTiling plain;
    optiling::TCubeTiling fields;
    if (api.GetTiling(plain) != 0 || api.GetTiling(fields) != 0) {
        return -1;
    }
    fields.SaveToBuffer(chosen, fields.GetDataSize());
    return __builtin_memcmp(chosen, &plain, sizeof(plain)) == 0 && fields.get_baseM() == api.GetBaseM() ? 0 : -3;
}
