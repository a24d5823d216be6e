"""Test that arrays are checked before a model runs, and npz files."""

import zipfile

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16

from opforge.codegen.errors import UserError
from opforge.codegen.files import write_files
from opforge.frontend.io.arrays import arrays_file, check_inputs, input_types, load_arrays
from opforge.frontend.run.execute import execute

INDEXED = "g (float[T, 3] x, int64[G] i) => (float[G, 3] y) {y = npu.NPUGroupedBiasAddGrad (x, i)}"


def parse(text):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "npu" : 1]> {text}')


def problems(arrays, model=INDEXED):
    with pytest.raises(UserError) as caught:
        check_inputs(arrays, input_types(parse(model)), "in.npz")
    return str(caught.value).splitlines()


X, ENDS = np.zeros((6, 3), np.float32), np.array([6])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": X}, ["in.npz", "'i' is missing", "int64 [G]"]),
        ({"x": X, "i": ENDS, "X": X}, ["'X' is not an input", "'x'"]),
        ({"x": X.astype(np.float64), "i": ENDS}, ["'x' has float64 [6, 3]", "expected float32 [T, 3]"]),
        ({"x": X[0], "i": ENDS}, ["[3]", "expected float32 [T, 3]"]),
        ({"x": X[:, :2], "i": ENDS}, ["[6, 2]", "expected float32 [T, 3]"]),
    ],
)
def test_a_wrong_input_is_one_line(arrays, words):
    (line,) = problems(arrays)
    assert all(word in line for word in words), line


def test_all_wrong_inputs_are_named_at_once():
    assert len(problems({"x": X[0], "q": X})) == 3


def test_one_dim_name_is_one_size():
    (line,) = problems({"x": X, "z": X[:2]}, "g (float[T, 3] x, float[T, 3] z) => (y) {y = Add (x, z)}")
    assert "where T is 6 in 'x'" in line


def test_an_input_with_a_default_may_be_missing():
    model = parse("g (float[2] x, float[2] w) => (float[2] y) {y = Add (x, w)}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    np.testing.assert_array_equal(execute(model, {"x": np.ones(2, np.float32)})["y"], [2, 2])


def test_arrays_survive_a_file(tmp_path):
    arrays = {"file": np.arange(3), "a/b::c": np.float16([1, 2]), "h": np.ones(2, bfloat16), "s": np.array(3.5)}
    write_files([arrays_file(tmp_path / "a.npz", arrays)])
    loaded = load_arrays(tmp_path / "a.npz", arrays)
    assert list(loaded) == list(arrays)
    assert loaded["h"].dtype == np.uint16
    np.testing.assert_array_equal(loaded["h"].view(bfloat16), arrays["h"])
    for name in ("file", "a/b::c", "s"):
        assert loaded[name].dtype == arrays[name].dtype
        np.testing.assert_array_equal(loaded[name], arrays[name], strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("store", [lambda array: array, lambda array: array.view(np.uint16)], ids=["void", "uint16"])
def test_bfloat16_inputs_are_bit_patterns(tmp_path, store):
    values = np.array([[1.5, -2.0]], bfloat16)
    np.savez(tmp_path / "a.npz", x=store(values))
    model = parse("g (bfloat16[1, 2] x) => (bfloat16[1, 2] y) {y = Neg (x)}")
    outputs = execute(model, load_arrays(tmp_path / "a.npz", ["x"]))
    assert outputs["y"].dtype == bfloat16
    np.testing.assert_array_equal(outputs["y"].astype(np.float32), [[-1.5, 2.0]])


def damaged_npz(path, kind):
    match kind:
        case "text":
            path.write_text("no archive")
        case "empty":
            path.touch()
        case "cut":
            np.savez(path, x=X)
            path.write_bytes(path.read_bytes()[:100])
        case "single array":
            with path.open("wb") as file:
                np.save(file, X)
        case "objects":
            np.savez(path, x=np.array([{}], dtype=object))
        case "huge":
            header = repr({"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}).ljust(117).encode() + b"\n"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        case "directory":
            path.mkdir()


@pytest.mark.parametrize("kind", ["text", "empty", "cut", "single array", "objects", "huge", "directory", "missing"])
def test_a_damaged_inputs_file_is_one_line(tmp_path, kind):
    path = tmp_path / "in.npz"
    damaged_npz(path, kind)
    with pytest.raises(UserError, match=r"in\.npz") as caught:
        load_arrays(path, ["x"])
    assert "\n" not in str(caught.value)
    assert ("Python objects" in str(caught.value)) == (kind == "objects")
