"""Find project folders: specs, plans, kernels, and built files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError
from .files import is_file, lock_file, read_regular
from .printing import first_line, path_text, shown

# The folder with codegen/, op_proto/, op_kernel/ ...: the repository, or `site-packages/opforge` of a wheel.
BUILTIN_ROOT = Path(__file__).resolve().parent.parent
_CONFIG = "pyproject.toml"
MOST_SPEC_BYTES = 1 << 20
_MOST_CONFIG_BYTES = 1 << 20
# In a folder of OPFORGE_BUILD_DIR: the project that owns it.
OWNER_FILE = ".opforge-project"
_MOST_PATH_BYTES = 4096
_VENDOR = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Project:
    """A folder with `op_proto/*.yaml`, `op_host/`, `op_kernel/` and `op_plugin/`."""

    root: Path
    # Suffix of the types and functions of all operators; their built files are separate.
    op_suffix: str = ""
    # Replaces the default folder of built files.
    own_build_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.op_suffix and not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,31}", self.op_suffix):
            raise UserError(
                f"--op-suffix: got {shown(self.op_suffix)}, expected a capital letter, then letters and digits, as in"
                " 'Custom'"
            )

    @property
    def is_installed(self) -> bool:
        """Return whether the folder is in an installed wheel, where nothing may be written."""
        return self.root == BUILTIN_ROOT and not (self.root / _CONFIG).is_file()

    @property
    def build_dir(self) -> Path:
        """Return the folder of built files: `build/` of a checkout, the user's cache for an installed wheel."""
        return self._plain_build_dir / f"suffix_{self.op_suffix}" if self.op_suffix else self._plain_build_dir

    @property
    def _plain_build_dir(self) -> Path:
        if self.own_build_dir:
            return self.own_build_dir
        override = os.environ.get("OPFORGE_BUILD_DIR")
        if override:
            with _read_from("OPFORGE_BUILD_DIR"):
                return Path(override).resolve()
        if not self.is_installed:
            return self.root / "build"
        return user_cache() / hashlib.sha256(str(self.root).encode()).hexdigest()[:12]

    def claim_build_dir(self) -> None:
        """Record in the folder of OPFORGE_BUILD_DIR that it belongs to this project; others would replace its files.

        Raises:
            UserError: It belongs to another project or is inside such a folder, or cannot be written.
        """
        if self.own_build_dir or not os.environ.get("OPFORGE_BUILD_DIR"):
            return
        folder = self._plain_build_dir
        mine = os.fsencode(self.root.resolve())
        try:
            for above in folder.parents:
                if (above / OWNER_FILE).is_file():
                    self._require_own(above, read_regular(above / OWNER_FILE, "owner", _MOST_PATH_BYTES, "remove it"))
            for above in (folder, *folder.parents):
                if above.name == "build" and any((above.parent / "op_proto").glob("*.yaml")):
                    self._require_own(above, os.fsencode(above.parent))
            folder.mkdir(parents=True, exist_ok=True)
            with lock_file(folder / OWNER_FILE) as lock:
                owner = os.pread(lock, len(mine) + _MOST_PATH_BYTES, 0)
                if not owner:
                    os.pwrite(lock, mine, 0)
        except OSError as error:
            raise UserError(
                f"{path_text(folder)}: cannot create the build folder: {error.strerror}, expected a folder in which"
                " opforge can build; set OPFORGE_BUILD_DIR to another one, or XDG_CACHE_HOME for an installed opforge"
            ) from error
        self._require_own(folder, owner)

    def _require_own(self, folder: Path, owner: bytes) -> None:
        """Reject a folder whose owner is another project; one without an owner may be used."""
        if owner in {b"", os.fsencode(self.root.resolve())}:
            return
        got, other = path_text(self._plain_build_dir), path_text(Path(os.fsdecode(owner)))
        place = "which" if folder == self._plain_build_dir else f"inside of {path_text(folder)}, which"
        repair = f", or remove {path_text(folder / OWNER_FILE)}" if os.path.lexists(folder / OWNER_FILE) else ""
        raise UserError(
            f"OPFORGE_BUILD_DIR: got {got}, {place} contains the build of {other}, expected a folder for "
            f"{path_text(self.root)} only; set it to another folder{repair}"
        )

    @property
    def gen_dir(self) -> Path:
        """Return the default output folder of `opforge generate`."""
        return self.build_dir / "gen"

    @property
    def vendor(self) -> str:
        """Vendor directory of its packages: `vendor` of `[tool.opforge]` in pyproject.toml; default: opforge.

        Raises:
            UserError: The file cannot be read, or the name cannot be used.
        """
        return check_vendor(
            self._said("vendor", "opforge"), f"{path_text(self.root / _CONFIG)}: vendor of [tool.opforge]"
        )

    @property
    def version(self) -> str:
        """Version of its packages: `version` next to `vendor`; empty by default.

        Raises:
            UserError: The file cannot be read, or the version cannot be compared with another.
        """
        version = self._said("version", "")
        if not isinstance(version, str) or not re.fullmatch(r"([0-9]+(\.[0-9A-Za-z]+)*)?", version):
            place = f"{path_text(self.root / _CONFIG)}: version of [tool.opforge]"
            raise UserError(f"{place}: got {shown(version)}, expected numbers and dots, as in '1.10'")
        return version

    def _said(self, key: str, default: str) -> object:
        """Return a value of the table [tool.opforge] in pyproject.toml."""
        import tomllib

        path = self.root / _CONFIG
        if not os.path.lexists(path):
            return default
        data = read_regular(path, "configuration", _MOST_CONFIG_BYTES, "make it smaller")
        try:
            found: object = tomllib.loads(data.decode())["tool"]["opforge"][key]
        except KeyError:
            return default
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path_text(path)}: got '{first_line(error)}', expected TOML with {key} = \"...\" below [tool.opforge]"
            ) from error
        return found

    def spec_paths(self) -> list[Path]:
        """Return all specs of the project, sorted by name."""
        return sorted((self.root / "op_proto").glob("*.yaml"))

    def missing(self, paths: Iterable[str]) -> str:
        """Return the first of some files below the folder that does not exist; "" if all exist."""
        return next((path for path in paths if not is_file(self.root / path)), "")


def user_cache() -> Path:
    """Return the cache folder of this user: `opforge` in XDG_CACHE_HOME, by default in `~/.cache`.

    Raises:
        UserError: There is no home folder.
    """
    with _read_from("XDG_CACHE_HOME"):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "opforge"


@contextmanager
def _read_from(variable: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # a cycle of links, or no home
        raise UserError(f"{variable}: got '{first_line(error)}', expected a folder; set it to another one") from error


def check_vendor(name: object, place: str) -> str:
    """Return the name of a vendor directory.

    Raises:
        UserError: It cannot be used.
    """
    if not isinstance(name, str) or not _VENDOR.fullmatch(name):
        raise UserError(f"{place}: got {shown(name)}, expected lower case letters, digits and '_', as in 'my_company'")
    return name


def find_project(start: Path | None = None) -> Project:
    """Return the nearest folder at or above `start` (default: the current one) with specs, else the built-in one.

    Raises:
        UserError: The current folder was removed.
    """
    try:
        here = (start or Path.cwd()).resolve()
    except FileNotFoundError as error:
        raise UserError("the current folder no longer exists; change to one that does") from error
    for folder in (here, *here.parents):
        if any((folder / "op_proto").glob("*.yaml")):
            return Project(folder)
    return Project(BUILTIN_ROOT)
