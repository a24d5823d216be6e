"""Serve specs to editors by the language server protocol."""

from __future__ import annotations

import logging
import os
from itertools import islice
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from opforge.codegen import editor
from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import escaped
from opforge.codegen.project import MOST_SPEC_BYTES

from .version import version_text

_MOST_DIAGNOSTICS = 1000
# The library sends errors to the editor, and logs them with tracebacks too.
logging.getLogger("pygls").setLevel(logging.CRITICAL)


class _Protocol(LanguageServerProtocol):  # type: ignore[misc]
    """The protocol of the library; it also answers requests whose parameters are wrong."""

    def structure_message(self, data: Any) -> Any:
        """Return a message as an object, or answer it with an error."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), int | str) and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


server = LanguageServer(
    "opforge",
    version_text(),
    text_document_sync_kind=types.TextDocumentSyncKind.Full,
    protocol_cls=_Protocol,
)


def _text(uri: str) -> str:
    """Return the text of a document. A document that is not open is read from its file, which may not exist."""
    try:
        documents = server.workspace.text_documents
    except RuntimeError as error:
        raise JsonRpcServerNotInitialized("got a request before 'initialize', expected it first") from error
    if uri in documents:
        text: str = documents[uri].source
        return text
    try:
        file = to_fs_path(uri)
        return read_regular(Path(file), "spec", MOST_SPEC_BYTES, "make it smaller").decode() if file else ""
    except (UserError, ValueError):
        return ""


def publish(params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    """Send the problems of a spec."""
    uri = params.text_document.uri
    text = _text(uri)
    diagnostics = []
    for problem in islice(editor.problems_in(text), _MOST_DIAGNOSTICS):
        start = types.Position(problem.place.line - 1, problem.place.column - 1)
        diagnostics.append(
            types.Diagnostic(
                range=types.Range(start, types.Position(start.line, start.character + 1)),
                message=escaped(editor.message_of(problem)),
                severity=types.DiagnosticSeverity.Error,
                source="opforge",
            )
        )
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics))


def close(params: types.DidCloseTextDocumentParams) -> None:
    """Remove the problems of a spec that is no longer open."""
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def complete(params: types.CompletionParams) -> list[types.CompletionItem]:
    """Send the keys or values that the schema allows."""
    at = params.position
    words = editor.completions(_text(params.text_document.uri), at.line, at.character)
    return [types.CompletionItem(label=word) for word in words]


def hover(params: types.HoverParams) -> types.Hover | None:
    """Send the dtypes and shapes of a tensor."""
    at = params.position
    text = editor.hover(_text(params.text_document.uri), at.line, at.character)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def define(params: types.DefinitionParams) -> list[types.Location]:
    """Send the locations of the kernel and the plan."""
    uri = params.text_document.uri
    file = to_fs_path(uri)
    found = editor.definitions(Path(file), _text(uri), params.position.line) if file else []
    start = types.Range(types.Position(0, 0), types.Position(0, 0))
    return [types.Location(from_fs_path(str(path)) or "", start) for path in found]


def serve() -> None:
    """Answer messages on standard input until the editor ends the session."""
    # The library closes its streams at the end, but the command line flushes those of the process later.
    with os.fdopen(os.dup(0), "rb") as messages, os.fdopen(os.dup(1), "wb") as answers:
        server.start_io(messages, answers)


for feature, handler in {
    types.TEXT_DOCUMENT_DID_OPEN: publish,
    types.TEXT_DOCUMENT_DID_CHANGE: publish,
    types.TEXT_DOCUMENT_DID_CLOSE: close,
    types.TEXT_DOCUMENT_COMPLETION: complete,
    types.TEXT_DOCUMENT_HOVER: hover,
    types.TEXT_DOCUMENT_DEFINITION: define,
}.items():
    server.feature(feature)(handler)
