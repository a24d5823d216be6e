"""Test hostile npz files: each is read, or rejected in one line; no other error, and no memory for absent content."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from opforge.codegen.errors import UserError
from opforge.frontend.io.arrays import load_arrays, load_within

X = np.arange(12, dtype=np.float32).reshape(3, 4)
NAMES = ("x", "i", "w", "s", "e")


def header(shape="(3, 4)", descr="'<f4'", version=b"\x01\x00", size=None):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text = text.ljust(size or 117) + b"\n"
    count = struct.pack("<H" if version == b"\x01\x00" else "<I", len(text))
    return b"\x93NUMPY" + version + count + text


def npz(*members, compression=zipfile.ZIP_STORED):
    """Return the bytes of an archive of (name, content) pairs."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def saved(save, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def patched(data, place, text):
    return data[:place] + text + data[place + len(text) :]


def damaged_deflate():
    data = saved(np.savez_compressed, x=np.random.default_rng(1).normal(size=99))
    return patched(data, len(data) // 2, bytes(range(40)))


def with_flag(data, value):
    """Return an archive whose first member has other flags, in both of its headers."""
    central = data.index(b"PK\x01\x02")
    return patched(patched(data, 6, struct.pack("<H", value)), central + 8, struct.pack("<H", value))


def with_method(data, value):
    central = data.index(b"PK\x01\x02")
    return patched(patched(data, 8, struct.pack("<H", value)), central + 10, struct.pack("<H", value))


def with_size(data, value):
    """Return an archive with another size of its member."""
    central = data.index(b"PK\x01\x02")
    sizes = struct.pack("<II", value, value)
    return patched(patched(data, 18, sizes), central + 20, sizes)


def unchecked(content):
    """Return a member with a wrong checksum."""
    data = npz(("x.npy", content))
    return patched(data, data.index(content) + len(content) - 1, b"\x7f")


def twice():
    with pytest.warns(UserWarning, match="Duplicate name"):
        return npz(("x.npy", header() + X.tobytes()), ("x.npy", header() + X.tobytes()))


GOOD = header() + X.tobytes()
PLAIN = npz(("x.npy", GOOD))
DAMAGES = {
    "empty": (lambda: b"", "got other data than an archive"),
    "text": (lambda: b"no archive", "got other data than an archive"),
    "a pickle": (lambda: b"\x80\x04K\x01.", "got other data than an archive"),
    "a single array": (lambda: GOOD, "got a single array"),
    "only the magic": (lambda: b"PK\x03\x04", "not a zip file"),
    "cut in the directory": (lambda: PLAIN[:-30], "not a zip file"),
    "damaged deflate stream": (damaged_deflate, "member 'x.npy': "),
    "encrypted": (lambda: with_flag(PLAIN, 1), "is encrypted"),
    "strongly encrypted": (lambda: with_flag(PLAIN, 0x41), "is encrypted"),
    "patched data": (lambda: with_flag(PLAIN, 0x20), "patch"),
    "bzip2": (lambda: npz(("x.npy", GOOD), compression=zipfile.ZIP_BZIP2), "got compression 12"),
    "lzma": (lambda: npz(("x.npy", GOOD), compression=zipfile.ZIP_LZMA), "got compression 14"),
    "bzip2 that is none": (lambda: with_method(PLAIN, 12), "got compression 12"),
    "lzma that is none": (lambda: with_method(PLAIN, 14), "got compression 14"),
    "deflate that is none": (lambda: with_method(PLAIN, 8), "member 'x.npy': "),
    "unknown compression": (lambda: with_method(PLAIN, 97), "got compression 97"),
    "wrong checksum": (lambda: unchecked(GOOD), "CRC"),
    "size of 4 GB": (lambda: with_size(PLAIN, 0xFFFFFFF0), "member 'x.npy': "),
    "no magic in the member": (lambda: npz(("x.npy", b"hello")), "member 'x.npy': "),
    "empty member": (lambda: npz(("x.npy", b"")), "member 'x.npy': "),
    "header version 3": (lambda: npz(("x.npy", header(version=b"\x03\x00") + X.tobytes())), "got version 3.0"),
    "header version 9": (lambda: npz(("x.npy", header(version=b"\x09\x09") + X.tobytes())), "got version 9.9"),
    "header cut": (lambda: npz(("x.npy", GOOD[:50])), "member 'x.npy': "),
    "header of 60 kB": (lambda: npz(("x.npy", header(size=60_000) + X.tobytes())), "member 'x.npy': "),
    "header of 4 GB": (lambda: npz(("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}")), "member 'x.npy': "),
    "header no dict": (lambda: npz(("x.npy", header(shape="(").replace(b"{", b"["))), "member 'x.npy': "),
    "header nested": (lambda: npz(("x.npy", header("(" * 900 + ")" * 900, size=3000))), "member 'x.npy': "),
    "header with a call": (lambda: npz(("x.npy", header("exit(7)"))), "member 'x.npy': "),
    "shape of 4 PB": (lambda: npz(("x.npy", header(f"({1 << 50},)"))), "got 0 bytes, expected 4503599627370496"),
    "shape beyond 64 bits": (lambda: npz(("x.npy", header(f"({1 << 70}, {1 << 70})"))), "got 0 bytes, expected "),
    "shape of 4,000 digits": (lambda: npz(("x.npy", header(f"({'9' * 4000},)", size=4200))), "member 'x.npy': "),
    "nothing times too much": (lambda: npz(("x.npy", header(f"(0, {1 << 70})"))), "member 'x.npy': "),
    "99 dims": (lambda: npz(("x.npy", header(str((1,) * 99), size=400) + bytes(4))), "member 'x.npy': "),
    "negative dims": (lambda: npz(("x.npy", header("(-3, -4)") + X.tobytes())), "got dims [-3, -4]"),
    "too little content": (lambda: npz(("x.npy", GOOD[:-4])), "got 44 bytes, expected 48"),
    "too much content": (lambda: npz(("x.npy", GOOD + b"more")), "got 52 bytes, expected 48"),
    "objects": (lambda: npz(("x.npy", header("(1,)", "'|O'") + b"\x80\x04K\x01.")), "it contains Python objects"),
    "records": (lambda: npz(("x.npy", header("(1,)", "[('a', '<f4')]") + bytes(4))), "expected an array of numbers"),
    "dates": (lambda: npz(("x.npy", header("(1,)", "'<M8[s]'") + bytes(8))), "expected an array of numbers"),
    "no bytes an element": (lambda: npz(("x.npy", header(f"({1 << 40},)", "'|S0'"))), "expected an array of numbers"),
    "unknown type": (lambda: npz(("x.npy", header("(1,)", "'<q99'"))), "member 'x.npy': "),
    "the same name twice": (twice, "member 'x.npy': is in the archive twice"),
    "no array": (
        lambda: npz(("x.npy", GOOD), ("read.me", b"text")),
        "member 'read.me': expected a name that ends with .npy",
    ),
    "raw bytes under the name of an input": (
        lambda: npz(("x", b"text")),
        "member 'x': expected a name that ends with .npy",
    ),
    "a name that controls the terminal": (
        lambda: npz(("\x1b[2J", b"")),
        "member '\\x1b[2J': expected a name that ends with .npy",
    ),
    "a folder": (lambda: npz(("x.npy/", b"")), "member 'x.npy/': expected a name that ends with .npy"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_file_is_one_line(tmp_path, kind):
    make, words = DAMAGES[kind]
    path = tmp_path / "in.npz"
    path.write_bytes(make())
    with pytest.raises(UserError) as caught:
        load_arrays(path, ["x"])
    text = str(caught.value)
    assert text.startswith(f"{path}: cannot read the inputs: ")
    assert words in text
    assert text.endswith(", expected an .npz file; write it with numpy.savez")
    assert text.isprintable()
    assert len(text) < 600


@pytest.mark.parametrize(
    "make",
    [
        lambda: npz(("x.npy", header(f"({1 << 50},)"))),
        lambda: with_size(PLAIN, 0xFFFFFFF0),
        lambda: npz(("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}")),
    ],
    ids=["shape", "size in the archive", "header"],
)
def test_sizes_stated_by_a_file_allocate_no_memory(tmp_path, make):
    path = tmp_path / "in.npz"
    path.write_bytes(make())
    tracemalloc.start()
    try:
        with pytest.raises(UserError):
            load_arrays(path, ["x"])
        assert tracemalloc.get_traced_memory()[1] < 1 << 21
    finally:
        tracemalloc.stop()


def test_arrays_that_are_not_wanted_are_not_read(tmp_path):
    path = tmp_path / "in.npz"
    path.write_bytes(npz(("x.npy", GOOD), ("other.npy", b"damaged"), ("../../etc/x.npy", b"damaged")))
    found = load_arrays(path, ["x"])
    assert list(found) == ["x", "other", "../../etc/x"]
    np.testing.assert_array_equal(found["x"], X)


def test_files_of_numpy_are_read(tmp_path):
    arrays = {"x": X.T, "i": np.array(3), "w": np.empty((0, 5), np.int8), "s": np.array(["a", "bc"]), "e": X > 3}
    for save in (np.savez, np.savez_compressed):
        path = tmp_path / "in.npz"
        save(path, **arrays)
        found = load_within(path, NAMES)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
            assert found[name].flags.writeable


# Fuzzing.


def seeds():
    rng = np.random.default_rng(3)
    arrays = {"x": X, "i": np.arange(5), "w": rng.normal(size=(4, 6)), "s": np.array(1.5), "e": np.empty(0)}
    for save in (np.savez, np.savez_compressed):
        yield saved(save, **arrays)
        yield saved(save, x=X)
    yield npz(("x.npy", header(version=b"\x02\x00") + X.tobytes()), compression=zipfile.ZIP_DEFLATED)
    yield npz(("x.npy", header("(2,)", "'<U3'") + bytes(24)))


# The maximum size that deflate creates from a byte, once per array: members may share their bytes.
MOST_PER_BYTE = 1032 * len(NAMES)
NUMBERS = (0, 1, 8, 12, 14, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)


def mutated(data, rng):
    """Return data with some bytes changed, removed, repeated or replaced by special numbers of archives."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        place, kind = int(rng.integers(len(data))), rng.integers(6)
        if kind < 3:
            data[place] = rng.integers(256)
        elif kind == 3:
            size = int(rng.choice([1, 2, 4, 8]))
            number = NUMBERS[rng.integers(len(NUMBERS))] % (1 << 8 * size)
            data[place : place + size] = number.to_bytes(size, "little")
        elif kind == 4:
            data[place:place] = data[place : place + int(rng.integers(40))]
        elif len(data) > 60:
            del data[place : place + int(rng.integers(1, 40))]
    return bytes(data)


def mutated_member(rng):
    """Return a mutated array in a valid archive."""
    array = GOOD if rng.random() < 0.7 else header("(3,)", "'<i8'", b"\x02\x00") + bytes(24)
    return npz(("x.npy", mutated(array, rng)), compression=zipfile.ZIP_STORED if rng.random() < 0.9 else 8)


@pytest.mark.parametrize("cases", [3_000, pytest.param(100_000, marks=pytest.mark.all)])
def test_a_mutated_file_is_read_or_refused_in_one_line(tmp_path, cases):
    rng = np.random.default_rng(21)
    known, path = list(seeds()), tmp_path / "in.npz"
    read = 0
    refusals = set()
    for count in range(cases):
        data = mutated_member(rng) if count % 4 == 0 else mutated(known[count % len(known)], rng)
        path.write_bytes(data)
        try:
            found = load_arrays(path, NAMES)
            assert sum(array.nbytes for array in found.values()) <= MOST_PER_BYTE * len(data)
            read += 1
        except UserError as error:
            refusals.add(str(error))
        except Exception as error:
            (tmp_path / "found.npz").write_bytes(data)
            raise AssertionError(f"case {count}: {tmp_path / 'found.npz'}") from error
    assert [text for text in refusals if not text.isprintable() or len(text) > 600] == []
    assert read > cases // 100
    assert len(refusals) > 100
