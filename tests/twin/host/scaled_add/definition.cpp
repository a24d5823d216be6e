#include "register/op_def_registry.h"

namespace ops {

class ScaledAdd : public OpDef {
public:
    explicit ScaledAdd(const char* name) : OpDef(name)
    {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
        this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT16});
        this->Input("limit").ParamType(OPTIONAL).DataType({ge::DT_INT64, ge::DT_INT64}).ValueDepend(OPTIONAL);
        this->Output("out").ParamType(REQUIRED).Follow("x");
        this->Attr("factor").AttrType(REQUIRED).Float();
        this->Attr("mode").AttrType(OPTIONAL).String("plain");
        this->Attr("axes").AttrType(OPTIONAL).ListInt({1, 2});
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
        this->AICore().AddConfig("ascend910");
    }
};

OP_ADD(ScaledAdd);

}  // namespace ops
