"""`make bench`: every benchmark in turn, each a table of its own with ratios or a baseline from the same run."""

import importlib
import pkgutil
import sys

from rich.console import Console

import tests.bench


def main() -> None:
    """Run all, or those named on the command line. A benchmark is a module of this package with a function `main`."""
    names = sys.argv[1:] or [found.name for found in pkgutil.iter_modules(tests.bench.__path__)]
    for name in names:
        module = importlib.import_module(f"tests.bench.{name}")
        if hasattr(module, "main") and name != "__main__":
            Console().rule(name)
            sys.argv = [name]
            module.main()


if __name__ == "__main__":
    main()
