// Includes the tiling templates by their earlier name.
#include "ascendc/host_api/tiling/template_argument.h"
