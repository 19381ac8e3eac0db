#!/usr/bin/env python3
"""`make serve` and `make web`: the proxy, with an engine of its own unless an upstream is given.

.venv/bin/python tools/serve_proxy.py [--upstream URL] [any option of `polar-capture serve`]
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.engine.serve import Engine, EngineError


def main() -> int:
    options = sys.argv[1:]
    own = contextlib.nullcontext() if "--upstream" in options else Engine()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with own as engine:
            upstream = ["--upstream", engine.url] if engine else []
            command = [str(Path(sys.executable).with_name("polar-capture")), "serve", *upstream, *options]
            proxy = subprocess.Popen(command)
            try:
                return proxy.wait()
            except KeyboardInterrupt:
                return proxy.wait()  # Ctrl-C has reached it too, and it drains; a second signal would cut that short
            except BaseException:
                proxy.terminate()
                proxy.wait()
                raise
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
