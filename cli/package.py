"""Define the commands of the deployer: pack, verify, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opforge.codegen.errors import UserError
from opforge.codegen.printing import say

from .options import JOBS, JSON, OP_SUFFIX, OPS, answering, file_argument, listed, path_option

app = typer.Typer()


@app.command()
def pack(
    context: typer.Context,
    product: Annotated[
        str | None,
        typer.Option(
            metavar="PRODUCT,...",
            help="Products (SoC directories); default: all products of the specs that have kernels.",
        ),
    ] = None,
    ops: Annotated[str | None, OPS] = None,
    vendor_name: Annotated[
        str | None,
        typer.Option(
            "--vendor-name",
            metavar="NAME",
            help="Vendor folder of the package; default: vendor in pyproject.toml, else opforge.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        path_option("-o", "--output", metavar="DIR", text="Output folder; default: build_out."),
    ] = None,
    op_suffix: Annotated[str, OP_SUFFIX] = "",
    cann: Annotated[
        Path | None,
        path_option(
            "--cann",
            metavar="DIR",
            text="CANN toolkit that builds the libraries and kernels (this was not run with a real toolkit).",
            envvar="ASCEND_HOME_PATH",
        ),
    ] = None,
    no_build: Annotated[bool, typer.Option("--no-build", help="Pack the sources only.")] = False,
    sign: Annotated[
        Path | None,
        path_option("--sign", metavar="KEY", text="SSH key that signs the package, or openpgp:USER for a key of gpg."),
    ] = None,
    jobs: Annotated[int, JOBS] = 0,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Pack the operators into custom_opp_<os>_<arch>.run."""
    from opforge.package.pack import pack_command

    given = context.get_parameter_source("cann")
    if no_build and given is not None and given.name == "COMMANDLINE":
        raise UserError("--no-build: got --cann also, expected one of them; omit one")
    toolkit = None if no_build else cann
    with answering(json_out) as answer:
        answer.update(
            pack_command(
                listed(product),
                listed(ops),
                vendor_name,
                out,
                op_suffix=op_suffix,
                toolkit=toolkit,
                jobs=jobs,
                key=sign,
            )
        )


@app.command()
def verify(
    package: Annotated[Path, file_argument("PKG", "Package file (.run).")],
    trusted_keys: Annotated[
        Path | None,
        path_option(
            "--trusted-keys",
            metavar="FILE",
            text="Reject a package without a signature by a key in FILE (ALLOWED SIGNERS of ssh-keygen, or OpenPGP"
            " keys).",
        ),
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """Compare a package with its manifest, without running it."""
    from opforge.package.verify import verify as compare

    facts, problems = compare(package, trusted_keys)
    with answering(json_out) as answer:
        answer.update(facts | {"problems": problems})
        texts = {"products" if key == "socs" else key: value for key, value in facts.items()}
        lines = [f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in texts.items()]
        say(*lines, *problems, *([] if problems else ["all files match the manifest"]))
    raise typer.Exit(1 if problems else 0)


@app.command()
def doctor(
    soc: Annotated[
        str | None, typer.Option(metavar="CHIP", help="Chip of the target machine; default: the chip of this machine.")
    ] = None,
    product: Annotated[
        str | None, typer.Option(metavar="PRODUCT", help="Product (SoC directory), instead of --soc.")
    ] = None,
    json_out: Annotated[Path | None, JSON] = None,
) -> None:
    """List the operators that CANN finds, and installation errors.

    The command uses the environment variables of the current shell.
    """
    from opforge.package.doctor.command import doctor_command

    with answering(json_out) as answer:
        facts, code = doctor_command(soc, product)
        answer.update(facts)
    raise typer.Exit(code)
