"""Test parser plugins: the registry, and a parse function called as the ONNX parser calls it."""

from __future__ import annotations

import json
from ctypes import c_char_p, c_uint64

import pytest


@pytest.fixture
def plugins(acl, vendor):
    assert acl.library.opforgeTwinLoadPackage(str(vendor).encode()) == 0, acl.message()
    return json.loads(acl.library.opforgeTwinPlugins())


def parse(acl, key, attributes='{"attribute":[]}', inputs=("a", "", "c"), outputs=("y",)):
    answer = acl.library.opforgeTwinParseNode(
        key.encode(),
        b"node_1",
        b"tests",
        attributes.encode(),
        (c_char_p * len(inputs))(*(name.encode() for name in inputs)),
        c_uint64(len(inputs)),
        (c_char_p * len(outputs))(*(name.encode() for name in outputs)),
        c_uint64(len(outputs)),
    )
    return json.loads(answer)


def test_registered_plugins_are_listed(plugins):
    (plugin,) = [plugin for plugin in plugins if plugin["om_type"] == "ScaledAdd"]
    assert plugin["keys"] == ["ai.onnx::18::ScaledAdd", "tests::1::ScaledAdd"]
    assert plugin["framework"] == 5


def test_parse_function_fills_the_operator(acl, plugins):
    parsed = parse(acl, "tests::1::ScaledAdd", '{"attribute":[{"name":"a"}]}')
    assert parsed["om_type"] == "ScaledAdd"
    assert parsed["inputs"] == ["x", "bias", "limit"]
    assert parsed["outputs"] == ["out"]
    assert parsed["attributes"] == {"factor": 0.5, "mode": '{"attribute":[{"name":"a"}]}', "axes": [3]}


def test_parse_function_that_refuses(acl, plugins):
    assert "the plugin refused the node" in parse(acl, "tests::1::ScaledAdd", "refuse")["error"]


def test_keys_are_exact(acl, plugins):
    assert "E13010" in parse(acl, "ai.onnx::19::ScaledAdd")["error"]


def test_plugin_without_a_prototype(acl, plugins):
    assert "E10501: IR for Op node_1 with optype NoSuchPrototype" in parse(acl, "tests::1::NoSuchPrototype")["error"]
