"""Where the files beside the code are: `addons/` and `db/` in a checkout, `_addons` and `_db` inside an installed
wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `addons` or `db`; FileNotFoundError where neither place has it."""
    for candidate in (_PACKAGE / f"_{name}", _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"{_PACKAGE / f'_{name}'} is missing: this installation is incomplete, reinstall polar-capture"
    )


def addon_script() -> Path:
    """The script for `mitmdump -s`."""
    return folder("addons") / "capture.py"


def view(name: str) -> str:
    """The SQL that creates a view of `db/views`."""
    return (folder("db") / "views" / f"{name}.sql").read_text(encoding="utf-8")
