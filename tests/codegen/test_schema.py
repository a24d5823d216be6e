"""Compare the JSON schema for editors with the loader."""

import json

import pytest
from typer.testing import CliRunner

from opforge.cli.main import app
from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.spec.model import OpSpec


@pytest.fixture(scope="module")
def schema():
    result = CliRunner().invoke(app, ["schema"])
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_schema_has_exactly_the_keys_of_the_model(schema):
    models = [schema, *(model for model in schema["$defs"].values() if "properties" in model)]
    assert set(schema["properties"]) == set(OpSpec.model_fields)
    required = {name for name, f in OpSpec.model_fields.items() if f.is_required()}
    assert set(schema["else"]["required"]) == required
    assert required - set(schema["required"]) == {"formula", "inputs", "outputs", "cases", "constraints"}
    assert len(models) == 23
    assert all(model["additionalProperties"] is False for model in models)


def test_words_are_offered(schema):
    tensor = schema["$defs"]["TensorSpec"]["properties"]
    assert set(tensor["dtypes"]["items"]["enum"]) == set(DTYPES)
    assert schema["properties"]["products"]["items"]["enum"] == list(PRODUCTS)
    assert schema["$defs"]["AttrSpec"]["properties"]["type"]["enum"] == [
        "int",
        "float",
        "bool",
        "string",
        "list_int",
        "list_float",
        "list_bool",
        "list_string",
    ]


def test_patterns_and_limits_are_those_of_the_loader(schema):
    constraint = schema["$defs"]["ConstraintSpec"]["properties"]
    assert constraint["label"]["pattern"] == "^[A-Z][A-Z0-9]{0,7}$"
    assert schema["properties"]["products"]["minItems"] == 1
