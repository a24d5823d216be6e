"""Statements of the CANN document: each call in a spec has the status and the results that the spec states."""

from __future__ import annotations

import ctypes
import itertools
import operator
from contextlib import ExitStack
from ctypes import byref, c_int64, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from opforge.codegen.data.dtypes import DTYPES, FORMATS
from opforge.codegen.data.products import DEFAULT_SOC, SOCS
from opforge.codegen.project import find_project
from opforge.codegen.spec.call import shapes_of_test
from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.section_parts import CallSpec
from opforge.codegen.spec.validate_uses import call_as_test, calls_of
from opforge.codegen.views.facts import aclnn_signature
from opforge.twin import run
from opforge.twin.build import build_project
from opforge.twin.runtime.acl import runtime
from opforge.twin.runtime.aclnn_call import AclnnCall

ROOT = Path(__file__).resolve().parent.parent
SPECS = load_specs(find_project(ROOT).spec_paths())
CALLS = [
    pytest.param(spec, call, id=f"{spec.name}-{spec.document[path[1]].subject}-{path[1]}-{path[2]}-{path[3]}")
    for spec in SPECS
    for path, call in calls_of(spec)
]
RUNS = [param for param in CALLS if param.values[1].gives]
NO_KERNEL = 561003


@pytest.fixture(scope="module")
def opapi():
    acl = runtime()
    acl.call("aclrtSetDevice", 0)
    socs = sorted({soc_of(param.values[1]) for param in CALLS})
    yield ctypes.CDLL(str(build_project(find_project(ROOT), socs).opapi))
    acl.set_option("soc", DEFAULT_SOC)


def soc_of(call):
    return next(chip for chip, soc in SOCS.items() if soc.dir == (call.product or SOCS[DEFAULT_SOC].dir))


def dtypes_of(spec, call):
    """Return the dtype of each tensor: the given one, that of its input, or the first one."""
    own = {t.name: call.dtypes.get(t.name, t.dtypes[0]) for t in spec.tensors}
    return {t.name: call.dtypes.get(t.name, own[t.dtype or t.name]) for t in spec.tensors}


def shapes_of(spec, call):
    """Return the shape of each tensor that is not null."""
    test = call_as_test(spec, call)
    shapes = shapes_of_test(spec.program, test, {attr.name: attr for attr in spec.attrs}) | call.shapes
    lists = {tensor.name for tensor in spec.host_lists} - set(test.values)
    return {name: shape for name, shape in shapes.items() if name not in {*call.absent, *lists}}


def descriptor(acl, shape, dtype, format_name):
    """Return an aclTensor without memory."""
    strides = [*itertools.accumulate(reversed(shape[1:]), operator.mul, initial=1)][::-1][: len(shape)]
    dims = (c_int64 * len(shape))(*shape)
    handle = acl.library.aclCreateTensor(
        dims, len(shape), DTYPES[dtype].number, (c_int64 * len(shape))(*strides), 0, FORMATS[format_name],
        dims, len(shape), None,
    )  # fmt: skip
    assert handle, acl.message()
    return c_void_p(handle)


def first_phase(spec, call, opapi, results=None):
    """Return the status of GetWorkspaceSize and its message; `results` replace the last two arguments."""
    acl, test = runtime(), call_as_test(spec, call)
    acl.set_option("soc", soc_of(call))
    marshalled = AclnnCall(spec, {}, test.attrs, call.function)
    shapes, dtypes = shapes_of(spec, call), dtypes_of(spec, call)
    arguments, executor = [], c_void_p()
    with ExitStack() as stack:
        for parameter in aclnn_signature(spec, marshalled.function):
            if parameter.kind == "attr":
                arguments.append(marshalled._attribute(parameter.of, parameter.c_type))
            elif parameter.of not in shapes:
                arguments.append(c_void_p())
            elif parameter.kind == "host_list":
                arguments.append(stack.enter_context(acl.array("IntArray", test.values[parameter.of])))
            else:
                format_name = call.formats.get(parameter.of, "ND")
                arguments.append(descriptor(acl, shapes[parameter.of], dtypes[parameter.of], format_name))
                stack.callback(acl.library.aclDestroyTensor, arguments[-1])
        plan = getattr(opapi, f"{marshalled.function}GetWorkspaceSize")
        status = plan(*arguments, *(results or (byref(c_uint64()), byref(executor))))
        if status == 0:
            acl.library.aclDestroyAclOpExecutor(executor)
    return status, acl.message()


def filled(shape, dtype, elements):
    """Return an array of one number or of all elements in order."""
    numbers = np.asarray(elements)
    return (np.full(shape, numbers) if numbers.ndim == 0 else numbers.reshape(shape)).astype(dtype)


@pytest.mark.parametrize(("spec", "call"), CALLS)
def test_call_has_its_status(spec, call, opapi):
    expected = call.status or (0 if call.product in {None, *spec.built_products} else NO_KERNEL)
    status, message = first_phase(spec, call, opapi)
    assert status == expected, message


@pytest.mark.parametrize("results", [(None, byref(c_void_p())), (byref(c_uint64()), None)], ids=["size", "executor"])
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.tests.shapes], ids=lambda spec: spec.name)
def test_a_null_result_is_refused(spec, results, opapi):
    status, message = first_phase(spec, CallSpec(), opapi, results)
    assert (status, "got null" in message) == (161001, True)


@pytest.mark.parametrize(("spec", "call"), RUNS)
def test_call_gives_its_results(spec, call):
    test, dtypes = call_as_test(spec, call), dtypes_of(spec, call)
    values = {**test.values, **call.values}
    arrays = {name: filled(shape, dtypes[name], values.get(name, 1)) for name, shape in shapes_of(spec, call).items()}
    outputs = {output.name: arrays.pop(output.name) for output in spec.outputs}
    result = run(spec.op_type, arrays, test.attrs, outputs=outputs, function=call.function, soc=soc_of(call))
    for name, elements in call.gives.items():
        np.testing.assert_array_equal(result[name], filled(result[name].shape, dtypes[name], elements))


def test_every_operator_has_statements():
    assert [spec.op_type for spec in SPECS if spec.builtin and not spec.document] == []
