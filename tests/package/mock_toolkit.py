"""Define a mock toolkit: a folder with the files of a CANN toolkit, for each generation.

Its programs record their calls and write files of the correct form. Its libraries are empty, except for the symbols of
the registry: code compiled here was not compiled with CANN.
"""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

SHARED = ("exe_graph", "register", "tiling_api", "platform", "opapi", "nnopbase", "ascendcl", "graph")
OPC = r"""#!/usr/bin/env python3
import json, os, pathlib, sys
VARIABLES = ("ASCEND_HOME_PATH", "TILINGKEY_PAR_COMPILE", "ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_GLOBAL_LOG_LEVEL")
root = pathlib.Path(__file__).resolve().parent.parent
options = dict(word[2:].split("=", 1) for word in sys.argv[2:])
parameters = json.loads(pathlib.Path(options["input_param"]).read_text())
shown = pathlib.Path(os.environ["ASCEND_CUSTOM_OPP_PATH"])
call = {
    "program": "opc", "argv": sys.argv[1:], "cwd": os.getcwd(), "parameters": parameters,
    "tiling": (shown / "op_impl/ai_core/tbe/op_tiling/liboptiling.so").is_file(),
    "described": sorted(path.name for path in shown.glob("op_impl/ai_core/tbe/config/*/*.json")),
    "variables": {name: os.environ.get(name, "") for name in VARIABLES},
}
with (root / "calls").open("a") as calls:
    calls.write(json.dumps(call) + "\n")
node = parameters["op_list"][0]
print("opc: compiling", node["bin_filename"])
if (root / "opc-fails").exists() and node["inputs"][0]["dtype"] in (root / "opc-fails").read_text().split():
    # As the real one: exit code 0, and a message only where the log goes to stdout.
    if os.environ.get("ASCEND_SLOG_PRINT_TO_STDOUT") == "1" and os.environ.get("ASCEND_GLOBAL_LOG_LEVEL", "4") < "4":
        print("[ERROR] TBE: kernel.h:1: error: made to fail\nnote: more")
    print("opc: end\n" * 9)
    sys.exit(int((root / "opc-exits").read_text()) if (root / "opc-exits").exists() else 0)
out = pathlib.Path(options["output"]) / node["bin_filename"]
out.with_suffix(".o").write_bytes(json.dumps(call["parameters"]).encode())
key = "/".join("%s,%s" % (t["dtype"], t["format"]) for t in node["inputs"])
support = {
    "implMode": "high_performance", "int64Mode": False, "simplifiedKeyMode": 0, "optionalInputMode": "gen_placeholder",
    "simplifiedKey": ["%s/d=0,p=1/%s" % (parameters["op_type"], key)], "staticKey": "0", "opMode": "dynamic",
    "inputs": node["inputs"], "outputs": node["outputs"], "attrs": node.get("attrs", []), "deterministic": "ignore",
}
text = {
    "binFileName": node["bin_filename"], "binFileSuffix": ".o", "coreType": "MIX", "taskRation": "tilingKey",
    "kernelName": node["bin_filename"], "supportInfo": support,
}
out.with_suffix(".json").write_text(json.dumps(text))
"""
ASC_MODULES = "compiler/tikcpp/ascendc_kernel_cmake/fwk_modules"
ASC_CONFIG = rf"""
if(NOT DEFINED ENV{{ASCEND_HOME_PATH}})
    message(FATAL_ERROR "ASCEND_HOME_PATH is not set")
endif()
include("$ENV{{ASCEND_HOME_PATH}}/{ASC_MODULES}/func.cmake")
"""
# The asc-config file of a toolkit whose CMake package supports only single source files.
ASC_CONFIG_WITHOUT_PACKAGES = """
# npu_op_package(name) comes later.
function(npu_op_packages_list)
endfunction()
message(FATAL_ERROR "has no npu_op_package")
"""
# The CMake functions of the newer generation: they record their arguments, compile, and install to the paths of CANN.
ASC_FUNCTIONS = r"""
set(ASCEND_AUTOGEN_PATH "${CMAKE_BINARY_DIR}/autogen")
file(MAKE_DIRECTORY "${ASCEND_AUTOGEN_PATH}")
function(record)
    string(REPLACE "${CMAKE_INSTALL_PREFIX}" "PREFIX" words "${ARGN}")
    file(APPEND "$ENV{ASCEND_HOME_PATH}/calls" "{\"program\": \"cmake\", \"argv\": \"${words}\"}\n")
endfunction()
function(npu_op_package name)
    record(npu_op_package ${name} ${ARGN})
    set_property(GLOBAL PROPERTY vendor "${CMAKE_INSTALL_PREFIX}/packages/vendors/${name}")
endfunction()
function(npu_op_code_gen)
    record(npu_op_code_gen ${ARGN})
    cmake_parse_arguments(GEN "" "PACKAGE;OUT_DIR" "SRC;OPTIONS" ${ARGN})
    list(GET GEN_OPTIONS 0 name)
    list(GET GEN_OPTIONS 1 value)
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env ${name}=${value}
        "${ASCEND_CANN_PACKAGE_PATH}/tools/opbuild/op_build" "${GEN_OUT_DIR}/libascend_all_ops.so" "${GEN_OUT_DIR}"
        COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(npu_op_library name type)
    record(npu_op_library ${name} ${type} ${ARGN})
    get_property(vendor GLOBAL PROPERTY vendor)
    set(machine linux/${CMAKE_SYSTEM_PROCESSOR})
    if(type STREQUAL "ONNX_PLUGIN")
        add_library(${name} SHARED ${ARGN})
        install(TARGETS ${name} DESTINATION "${vendor}/framework/onnx")
        return()
    endif()
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    add_library(${name}_so SHARED "$<TARGET_OBJECTS:${name}>")
    set_target_properties(${name}_so PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${name}_so PRIVATE ${name})
    if(NOT type STREQUAL "ACLNN")
        set(registry "$ENV{ASCEND_HOME_PATH}/lib64/librt2_registry.a")
        target_link_libraries(${name}_so PRIVATE -Wl,--whole-archive "${registry}" -Wl,--no-whole-archive)
    endif()
    set(GRAPH_place cust_opsproto_rt2.0 op_proto/lib/${machine})
    set(TILING_place cust_opmaster_rt2.0 op_impl/ai_core/tbe/op_tiling/lib/${machine})
    set(ACLNN_place cust_opapi op_api/lib)
    list(GET ${type}_place 0 output)
    list(GET ${type}_place 1 place)
    set_target_properties(${name}_so PROPERTIES OUTPUT_NAME ${output})
    install(TARGETS ${name}_so DESTINATION "${vendor}/${place}")
    if(type STREQUAL "TILING")
        file(CREATE_LINK lib/${machine}/libcust_opmaster_rt2.0.so "${CMAKE_BINARY_DIR}/liboptiling.so" SYMBOLIC)
        install(FILES "${CMAKE_BINARY_DIR}/liboptiling.so" DESTINATION "${vendor}/op_impl/ai_core/tbe/op_tiling")
    endif()
endfunction()
function(npu_op_kernel_library name)
    record(npu_op_kernel_library ${name} ${ARGN})
endfunction()
function(npu_op_package_add name)
    record(npu_op_package_add ${name} ${ARGN})
    file(GLOB generated RELATIVE "${ASCEND_AUTOGEN_PATH}" "${ASCEND_AUTOGEN_PATH}/*")
    record(autogen ${generated})
    get_property(vendor GLOBAL PROPERTY vendor)
    set(kernels "${CMAKE_BINARY_DIR}/kernels")
    set(compile "${ASCEND_CANN_PACKAGE_PATH}/tools/kernels")
    add_custom_target(binary COMMAND "${compile}" "${kernels}" ${ASCEND_COMPUTE_UNIT} VERBATIM)
    install(DIRECTORY "${kernels}/" DESTINATION "${vendor}/op_impl/ai_core/tbe/kernel")
endfunction()
"""
OP_BUILD = """#!/bin/sh
touch "$2/aic-ascend910b-ops-info.ini"
for end in h cpp; do echo "OPS_ACLNN_GEN=${OPS_ACLNN_GEN:-}" >"$2/aclnn_grouped_bias_add_grad.$end"; done
"""
KERNELS = r"""#!/bin/sh
out="$1"; shift
for soc in "$@"; do
    mkdir -p "$out/$soc/x" "$out/config/$soc"
    echo kernel >"$out/$soc/x/GroupedBiasAddGrad_1.o"
    echo '{}' >"$out/$soc/x/GroupedBiasAddGrad_1.json"
    echo '{}' >"$out/config/$soc/grouped_bias_add_grad.json"
    files="\"binPath\": \"$soc/x/GroupedBiasAddGrad_1.o\", \"jsonPath\": \"$soc/x/GroupedBiasAddGrad_1.json\""
    echo "{\"GroupedBiasAddGrad\": {\"binaryList\": [{$files}]}}" >"$out/config/$soc/binary_info_config.json"
done
"""


class Generation(NamedTuple):
    """The differences between the generations of toolkits.

    Attributes:
        version_info: `compiler/version.info`.
        version: The version in it.
        asc_config: `asc-config.cmake`; empty if there is none.
    """

    version_info: str
    version: str
    asc_config: str

    @property
    def has_asc(self) -> bool:
        """Whether npu_op_package of the toolkit builds a package."""
        return self.asc_config == ASC_CONFIG


GENERATIONS = {
    "8.1": Generation(
        'Version=7.7.0.1.238\nversion_dir=8.1.RC1\nrequired_opp_abi_version=">=6.3, <=7.7"\n', "8.1.RC1", False
    ),
    "8.5": Generation("Version=8.5.0.2.220\nversion_dir=8.5.0\n", "8.5.0", ASC_CONFIG_WITHOUT_PACKAGES),
    "9.1": Generation("Version=9.1.0\nversion_dir=cann\n", "9.1.0", ASC_CONFIG),
    "9.2": Generation("Version=9.2.0-beta.2\nversion_dir=cann\n", "9.2.0-beta.2", ASC_CONFIG),
    "unknown": Generation('timestamp=20290101\n Version = "12.0.1"\nversion_dir=cann\n', "12.0.1", ASC_CONFIG),
}


class MockToolkit:
    """A mock toolkit.

    Attributes:
        root: Its folder.
        generation: Its row of GENERATIONS.
    """

    def __init__(self, root: Path, generation: str = "8.1", version_dir: str = "") -> None:
        self.root, self.generation = root, GENERATIONS[generation]
        self.write("compiler/version.info", self.generation.version_info)
        if version_dir:
            self.write("compiler/version.info", f"version_dir={version_dir}\n")
        self.write("opp/scene.info", "os=linux\narch=x86_64\n")
        self.write("opp/built-in/x", "")
        self.write("bin/opc", OPC, executable=True)
        (root / "include").mkdir()
        if self.generation.asc_config:
            self.write("lib64/cmake/asc-config.cmake", self.generation.asc_config)
        if self.generation.has_asc:
            self.write(f"{ASC_MODULES}/func.cmake", ASC_FUNCTIONS)
            self.write("tools/opbuild/op_build", OP_BUILD, executable=True)
            self.write("tools/kernels", KERNELS, executable=True)
        self._libraries()

    def write(self, path: str, text: str, *, executable: bool = False) -> None:
        """Write a file of the toolkit."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(0o755 if executable else 0o644)

    def _libraries(self) -> None:
        lib = self.root / "lib64"
        lib.mkdir(exist_ok=True)
        registry, empty = _compiled()
        (lib / "librt2_registry.a").write_bytes(registry)
        names = (*SHARED, "opapi_math") if self.generation.has_asc else SHARED
        (lib / f"lib{names[0]}.so").write_bytes(empty)
        for name in names[1:]:
            (lib / f"lib{name}.so").hardlink_to(lib / f"lib{names[0]}.so")

    def calls(self, program: str) -> list[dict]:
        """Return the recorded calls of a program, in order."""
        recorded = self.root / "calls"
        lines = recorded.read_text().splitlines() if recorded.exists() else []
        return [call for call in map(json.loads, lines) if call["program"] == program]


@functools.cache
def _compiled() -> tuple[bytes, bytes]:
    """Return a static library with the symbol of the registry, and a shared library without symbols."""
    with tempfile.TemporaryDirectory() as folder:
        lib = Path(folder)
        (lib / "registry.c").write_text("int GetRegisteredOpNum(void) { return 1; }")
        (lib / "empty.c").write_text("")
        subprocess.run(["gcc", "-c", "-fPIC", "registry.c", "-o", "registry.o"], cwd=lib, check=True)
        subprocess.run(["ar", "rc", "registry.a", "registry.o"], cwd=lib, check=True)
        subprocess.run(["gcc", "-shared", "-fPIC", "empty.c", "-o", "empty.so"], cwd=lib, check=True)
        return (lib / "registry.a").read_bytes(), (lib / "empty.so").read_bytes()
