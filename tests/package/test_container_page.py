"""Test the page about the build in a container: its commands are those of the build, and its options exist.

The commands themselves were not run: there was no image.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from mock_toolkit import MockToolkit

from opforge.cli.main import app
from opforge.package.cann import commands
from opforge.package.cann.build import Build
from opforge.package.cann.toolkit import read_toolkit, tool_environment
from opforge.package.layout import layout, write_tree
from opforge.package.pack import BUILDER, SCRIPTS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/how-to/build-in-a-container.md").read_text()
BLOCKS = [block.strip() for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
WORK, JOBS = "/data/build", 987


@pytest.fixture(scope="module")
def package(small, tmp_path_factory):
    """Return the vendor folder of an unpacked package."""
    root = tmp_path_factory.mktemp("unpacked")
    write_tree(root, layout(small))
    return root / "packages/vendors/opforge"


def shown(build):
    """Return the steps of a build, one line each and each kernel once, without names of this machine."""
    lines = {}
    for step in (step for stage in build.stages() for step in stage):
        name = "<kernel>" if step.argv[0] == "opc" else step.name
        variables = [f"{key}={value}" for key, value in step.variables.items()]
        words = [word.replace(step.name, name) for word in (*variables, *step.argv)]
        text = " ".join(words).replace(build.toolkit.root, "$ASCEND_HOME_PATH").replace(str(JOBS), "$(nproc)")
        lines.setdefault(
            f"# {name}" if step.cwd == "." else f"# {name}, in {WORK}/{step.cwd.replace(step.name, name)}", text
        )
    return "\n".join(line for pair in lines.items() for line in pair)


@pytest.mark.parametrize("generation", ["8.1", "9.1"])
def test_the_page_has_the_commands_of_the_build(package, tmp_path, generation):
    toolkit = read_toolkit(MockToolkit(tmp_path / "cann", generation).root)
    build = Build(package, Path(WORK), toolkit, {}, JOBS, print)
    title = f"{'8' if generation == '8.1' else '9'}.x, with "
    (programs, block) = re.search(
        rf"^{re.escape(title)}([^\n]*):\n```\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL
    ).groups()
    assert tuple(re.findall(r"`(\S+)`", programs)) == commands.PROGRAMS[toolkit.generation]
    assert block == shown(build)


def test_the_page_has_the_variables_that_set_env_lacks(tmp_path):
    found = tool_environment(read_toolkit(MockToolkit(tmp_path / "cann").root), {})
    words = [f"{key}={found[key]}" for key in ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_GLOBAL_LOG_LEVEL")]
    assert f"export {' '.join(words)}" in BLOCKS


def options_of(program):
    """Return the options of the commands on the page that start with a program."""
    lines = [shlex.split(line) for block in BLOCKS[:-2] for line in block.splitlines() if program in line]
    assert lines, program
    return {word.partition("=")[0] for line in lines for word in line if word.startswith("--")}


def test_the_options_on_the_page_exist():
    pack = typer.main.get_command(app).commands["pack"]
    assert options_of("opforge pack") <= {name for parameter in pack.params for name in parameter.opts}
    installer = (SCRIPTS / "install.sh").read_text()
    assert options_of("custom_opp_debian_x86_64.run") <= set(re.findall(r"--[a-z-]+", installer))
    assert options_of("-m cann") <= set(re.findall(r"--[a-z-]+", (BUILDER / "__main__.py").read_text()))


def test_page_states_that_its_commands_were_not_run():
    assert "**The commands of this page were not run with a real toolkit.**" in PAGE
