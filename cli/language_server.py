"""Serve specs to editors by the language server protocol."""

from __future__ import annotations

import os
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from opforge.codegen import editor
from opforge.codegen.printing import escaped

from .version import version_text

server = LanguageServer("opforge", version_text(), text_document_sync_kind=types.TextDocumentSyncKind.Full)


def _text(uri: str) -> str:
    text: str = server.workspace.get_text_document(uri).source
    return text


def publish(params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    """Send the problems of a spec."""
    uri = params.text_document.uri
    text = _text(uri)
    diagnostics = []
    for problem in editor.problems_in(text):
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
    types.TEXT_DOCUMENT_COMPLETION: complete,
    types.TEXT_DOCUMENT_HOVER: hover,
    types.TEXT_DOCUMENT_DEFINITION: define,
}.items():
    server.feature(feature)(handler)
