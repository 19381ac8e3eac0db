"""Calls a task's Python evaluator, in a process of its own with a time limit: `call_function.py MODULE:FUNCTION`.

stdin is `{"task": {…}, "workspace": "…", "session": "…"}`; the function gets these as keyword arguments (those that it
takes) and returns a number, or `{"reward": …, "comment": …}`. Its own prints go to stderr.
"""

import importlib
import importlib.util
import inspect
import json
import sys
from typing import Any


def find(named: str) -> Any:
    module_name, _, function = named.rpartition(":")
    if module_name.endswith(".py"):
        spec = importlib.util.spec_from_file_location("evaluator", module_name)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {module_name}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    return getattr(module, function)


def main() -> int:
    answer, sys.stdout = sys.stdout, sys.stderr
    given = json.load(sys.stdin)
    function = find(sys.argv[1])
    taken = inspect.signature(function).parameters
    everything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    value = function(**{name: item for name, item in given.items() if everything or name in taken})
    print(json.dumps(value if isinstance(value, dict) else {"reward": value}), file=answer, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
