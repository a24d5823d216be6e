"""`opforge convert` and `opforge run`."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from opforge.frontend.conversion import convert
from opforge.frontend.files import require_writable, write_file
from opforge.frontend.load import load_model
from opforge.frontend.report import print_conversion, print_execution
from opforge.frontend.save import write_model


def convert_command(model: Path, out: Path, *, patterns: bool, domain: str, json_out: Path | None) -> int:
    """Convert a model file, print what was mapped and what was not; return the exit code.

    Raises:
        UserError: The model, the domain or a path is unusable; nothing was written.
    """
    source = load_model(model)
    require_writable(out, [model], "model")
    if json_out is not None:
        require_writable(json_out, [model, out], "report")
    conversion = convert(source, patterns=patterns, domain=domain)
    data = conversion.model.SerializeToString() if conversion.changed else source.data
    write_model(data, conversion.model, model, out)
    if json_out is not None:
        text = json.dumps(conversion.report(), indent=2) + "\n"
        write_file(json_out, lambda file: file.write(text.encode()), "report")
    print_conversion(conversion)
    return 0


def run_command(model: Path, inputs: Path, outputs: Path | None, *, soc: str) -> int:
    """Run a model file on arrays of an npz file, print its outputs and what the twin moved; return the exit code.

    Raises:
        UserError: The model, the arrays or the SoC is unusable.
    """
    from opforge.frontend.arrays import input_types, load_arrays, save_arrays
    from opforge.frontend.execute import run_model
    from opforge.twin import FindingsError

    source = load_model(model)
    if outputs is not None:
        require_writable(outputs, [model, inputs], "outputs")
    arrays = load_arrays(inputs, input_types(source.model))
    try:
        execution = run_model(source.model, arrays, soc=soc, folder=model.parent, where=inputs)
    except FindingsError as findings:
        Console(stderr=True).print(Text(str(findings)))
        return 1
    if outputs is not None:
        save_arrays(outputs, execution.outputs)
    print_execution(execution)
    return 0
