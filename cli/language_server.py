"""Serve specs to editors by the language server protocol."""

from __future__ import annotations

import logging
import os
from itertools import islice
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import (
    FeatureNotificationError,
    JsonRpcException,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from opforge.codegen import editor
from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import escaped
from opforge.codegen.project import MOST_SPEC_BYTES

from .version import version_text

_MOST_DIAGNOSTICS, _MOST_COLUMNS = 1000, 10_000
# The library sends errors to the editor, and logs them with tracebacks too.
logging.getLogger("pygls").setLevel(logging.CRITICAL)


class _Protocol(LanguageServerProtocol):  # type: ignore[misc]
    """The protocol of the library; it also answers messages that are no requests, or have wrong parameters."""

    def structure_message(self, data: Any) -> Any:
        """Return a message as an object, or answer it with an error; nested objects have no key `jsonrpc`."""
        if "method" in data and not (isinstance(data["method"], str) and isinstance(data.get("id", 0), int | str)):
            return data
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), int | str) and "method" in data:
                self.refuse(data["id"], error)
            raise

    def handle_message(self, message: Any) -> None:
        """Give a message to its handler, or answer it if it is no message of JSON-RPC 2.0 or follows `shutdown`."""
        number = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
        is_late = self._shutdown and number is not None
        if getattr(message, "jsonrpc", "") == self.VERSION and not is_late:
            super().handle_message(message)
        else:
            self.refuse(number if isinstance(number, int | str) else None, JsonRpcInvalidRequest())

    def refuse(self, number: int | str | None, error: JsonRpcException) -> None:
        """Answer a message with an error; the number of a message without one is None."""
        self._send_response(number, error=error.to_response_error())


class _Server(LanguageServer):  # type: ignore[misc]
    """The server of the library; it answers text that is not JSON, and shows only errors without an answer."""

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Answer or show an error."""
        if source is FeatureNotificationError:
            super().report_server_error(error, source)
        elif isinstance(error, ValueError | RecursionError):
            self.protocol.refuse(None, JsonRpcParseError())


server = _Server(
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


def _column(text: str, at: types.Position) -> int:
    """Return the column of a position in characters: the editor counts units of its encoding, usually UTF-16."""
    lines = text.splitlines()
    if not 0 <= at.line < len(lines) or not 0 < at.character <= _MOST_COLUMNS:
        return int(at.character)
    line = types.Position(0, at.character)
    return int(server.workspace.position_codec.position_from_client_units([lines[at.line]], line).character)


def publish(params: types.DidOpenTextDocumentParams | types.DidChangeTextDocumentParams) -> None:
    """Send the problems of a spec."""
    uri = params.text_document.uri
    text = _text(uri)
    diagnostics = []
    lines = text.splitlines()
    for problem in islice(editor.problems_in(text), _MOST_DIAGNOSTICS):
        place = types.Position(problem.place.line - 1, problem.place.column - 1)
        start = server.workspace.position_codec.position_to_client_units(lines, place)
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
    text = _text(params.text_document.uri)
    words = editor.completions(text, params.position.line, _column(text, params.position))
    return [types.CompletionItem(label=word) for word in words]


def hover(params: types.HoverParams) -> types.Hover | None:
    """Send the dtypes and shapes of a tensor."""
    text = _text(params.text_document.uri)
    shown = editor.hover(text, params.position.line, _column(text, params.position))
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, shown)) if shown else None


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
