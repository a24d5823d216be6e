"""Load Jinja templates, and keep their compiled code as Python keeps that of modules. Render HTML pages."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, MutableMapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import jinja2


class TemplateLoader(jinja2.BaseLoader):
    """Loads the templates of some folders of opforge. To compile them takes longer than to render them."""

    def __init__(self, folders: Iterable[Path], *modules: str) -> None:
        """Set the folders of the templates.

        Args:
            folders: Folders of the templates.
            modules: Files of the modules with the settings and the filters, which are part of the compiled code.
        """
        self.folders = tuple(folders)
        self.key = b"".join([jinja2.__version__.encode(), *(Path(module).read_bytes() for module in modules)])

    def load(
        self,
        environment: jinja2.Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002  # the name in the base class
    ) -> jinja2.Template:
        """Return a template.

        Raises:
            TemplateNotFound: No folder has it.
        """
        path = next((folder / name for folder in self.folders if (folder / name).is_file()), None)
        if path is None:
            raise jinja2.TemplateNotFound(name)
        code = _TemplateCode(environment, name, path, self.key).get_code(name)
        assert code is not None  # noqa: S101  # only an extension module has no code
        return jinja2.Template.from_code(environment, code, globals if globals is not None else {})


class _TemplateCode(SourceFileLoader):
    def __init__(self, environment: jinja2.Environment, name: str, path: Path, key: bytes) -> None:
        super().__init__(name, str(path))
        self.environment = environment
        self.key = key

    def path_stats(self, path: str) -> dict[str, int]:
        """Return a hash of the text and of what compiles it instead of a time; other hashes make the code obsolete."""
        text = self.get_data(path)
        return {"mtime": zlib.crc32(text + self.key), "size": len(text)}

    def source_to_code(self, data: bytes, path: str) -> CodeType:  # type: ignore[override]
        """Compile a template."""
        return self.environment.compile(data.decode(), self.name, path)


def render_page(template: Path, **values: Any) -> str:
    """Return an HTML page: one self-contained file, in which all values are escaped.

    Args:
        template: Template that extends `page.html.j2`, the common layout.
        values: Variables of the template.
    """
    loader = TemplateLoader([path.resolve().parent for path in (template, Path(__file__))], __file__)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template(template.name).render(**values)
