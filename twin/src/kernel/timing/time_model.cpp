#include "kernel/timing/time_model.h"

#include <cstdlib>
#include <mutex>
#include <sstream>

namespace opforge::twin::time_model {

namespace {

std::mutex lock;
std::string selected;  // SoC and replaced constants

void Set(const std::string& name, double number)
{
#define OPFORGE_TIME_CONSTANT(symbol, text, value) \
    if (name == (text)) {                          \
        symbol = number;                           \
    }
#include "time_model.inc"
#undef OPFORGE_TIME_CONSTANT
}

}  // namespace

void Select(const std::string& soc)
{
    const char* variable = std::getenv("OPFORGE_TWIN_CONSTANTS");
    const std::string replaced = variable == nullptr ? "" : variable;
    const std::lock_guard<std::mutex> guard(lock);
    if (selected == soc + " " + replaced) {
        return;
    }
    selected = soc + " " + replaced;
#define OPFORGE_TIME_CONSTANT(symbol, text, value) symbol = value;
#include "time_model.inc"
#undef OPFORGE_TIME_CONSTANT
#define OPFORGE_TIME_SOC(name, symbol, value) \
    if (soc == (name)) {                      \
        symbol = value;                       \
    }
#include "time_model_soc.inc"
#undef OPFORGE_TIME_SOC
    std::istringstream pairs(replaced);
    for (std::string pair; std::getline(pairs, pair, ',');) {
        const size_t colon = pair.find(':');  // after the prefix of a SoC name
        if (colon != std::string::npos && soc.rfind(pair.substr(0, colon), 0) != 0) {
            continue;
        }
        pair.erase(0, colon == std::string::npos ? 0 : colon + 1);
        const size_t equals = pair.find('=');
        Set(pair.substr(0, equals), equals == std::string::npos ? 0.0 : std::strtod(&pair[equals + 1], nullptr));
    }
}

}  // namespace opforge::twin::time_model
