"""Fixtures of the generator's tests."""

import importlib.util
from pathlib import Path

import pytest

from opforge.codegen.spec.loader import load_specs
from opforge.codegen.spec.parts import TilingSpec

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/codegen/golden/")


@pytest.fixture
def update_golden(request):
    return request.config.getoption("--update-golden", default=False)


def _neighbour(name):
    """Load a module of this folder, which is not a package."""
    found = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def calls_of():
    """Return a generator of random calls of a spec, with a fixed seed."""
    calls = _neighbour("random_calls").Calls
    return lambda spec: calls(spec, seed=7)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def specimen_path():
    return HERE / "specimens" / "scale_rows.yaml"


@pytest.fixture(scope="session")
def specimen(specimen_path):
    return load_specs([specimen_path])[0]


@pytest.fixture(scope="session")
def row_window():
    """Return the specimen with list attributes and a hand-written plan."""
    spec = load_specs([HERE / "specimens" / "row_window.yaml"])[0]
    return spec.model_copy(update={"tiling": TilingSpec()})


@pytest.fixture(scope="session")
def grouped():
    return load_specs([ROOT / "op_proto" / "grouped_bias_add_grad.yaml"])[0]


@pytest.fixture(scope="session")
def operators():
    return {spec.name: spec for spec in load_specs(sorted((ROOT / "op_proto").glob("*.yaml")))}


@pytest.fixture(scope="session")
def spec_of(operators, specimen, row_window):
    paths = ("specimens/pair_product", "specimens/add_to", "lists/add_lists", "lists/split_rows")
    paths += ("no_outputs/scale_all", "no_outputs/fill_steps")
    others = load_specs([HERE / f"{path}.yaml" for path in paths])
    return {**operators, **{one.name: one for one in (specimen, row_window, *others)}}
