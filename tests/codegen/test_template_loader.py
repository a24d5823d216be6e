"""Loading of templates with kept code."""

import sys

import jinja2
import pytest

from opforge.codegen.template_loader import TemplateLoader


def text_of(folder, *modules):
    environment = jinja2.Environment(loader=TemplateLoader([folder], *modules), autoescape=True)
    return environment.get_template("a.cpp.j2").render(name="x")


def compiled(monkeypatch):
    """Return the list of the templates that are compiled from now on."""
    names = []
    kept = jinja2.Environment.compile
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *args: names.append(args[2]) or kept(*args))
    return names


@pytest.fixture
def template(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path = tmp_path / "a.cpp.j2"
    path.write_text("int {{ name }};")
    return path


def test_code_is_kept_until_the_text_or_a_module_changes(template, monkeypatch):
    module = template.with_name("filters.py")
    module.write_text("1")
    names = compiled(monkeypatch)
    for text, filters, times in (("int x;", "1", 1), ("int x;", "1", 1), ("INT x;", "1", 2), ("INT x;", "2", 3)):
        template.write_text(text.replace("x", "{{ name }}"))
        module.write_text(filters)
        assert text_of(template.parent, str(module)) == text
        assert names == ["a.cpp.j2"] * times


@pytest.mark.parametrize("content", [b"", b"no code", b"\0" * 64])
def test_other_content_is_replaced(template, monkeypatch, content):
    text_of(template.parent)
    (kept,) = template.parent.glob("__pycache__/*.pyc")
    code = kept.read_bytes()
    kept.write_bytes(content)
    names = compiled(monkeypatch)
    assert text_of(template.parent) == "int x;"
    assert names == ["a.cpp.j2"]
    assert kept.read_bytes() == code


def test_a_file_instead_of_the_folder_changes_nothing(template):
    (template.parent / "__pycache__").write_text("")
    assert text_of(template.parent) == "int x;"


def test_setting_of_python_is_respected(template, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert text_of(template.parent) == "int x;"
    assert list(template.parent.iterdir()) == [template]


def test_unknown_template_has_a_name(tmp_path):
    with pytest.raises(jinja2.TemplateNotFound, match=r"a\.cpp\.j2"):
        text_of(tmp_path)
