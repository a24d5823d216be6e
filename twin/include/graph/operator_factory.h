// Creates operators of the types registered by REG_OP.
#ifndef GRAPH_OPERATOR_FACTORY_H
#define GRAPH_OPERATOR_FACTORY_H

#include <string>
#include <vector>

#include "graph/operator.h"

namespace ge {
class OperatorFactory {
public:
    /// Returns an empty operator if the type is not registered.
    static Operator CreateOperator(const std::string& operator_name, const std::string& operator_type);
    static Operator CreateOperator(const char_t* const operator_name, const char_t* const operator_type);
    static graphStatus GetOpsTypeList(std::vector<std::string>& all_ops);
    static graphStatus GetOpsTypeList(std::vector<AscendString>& all_ops);
    static bool IsExistOp(const std::string& operator_type);
    static bool IsExistOp(const char_t* const operator_type);
};
}  // namespace ge

#endif  // GRAPH_OPERATOR_FACTORY_H
