"""Stands in for `serve` where a test is about its starter: `python fake_serve.py BEHAVIOUR [serve's options]`.

Prints what it was started with on stderr, and on SIGTERM or a closed stdin a last line. The control host takes
everything and writes it to the file FAKE_LOG, one JSON a line.
"""

import http.server
import json
import os
import signal
import sys
import threading
import time


class Control(http.server.BaseHTTPRequestHandler):
    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(
                json.dumps([self.command, self.path, self.headers["authorization"], json.loads(body or "{}")]) + "\n"
            )
        text = b'{"id": "0198-fake"}'
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

        if sys.argv[1] == "short-lived":
            threading.Timer(0.3, os._exit, [9]).start()

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    behaviour, options = sys.argv[1], sys.argv[2:]
    secrets = {name: value for name, value in os.environ.items() if name.startswith("POLAR_")}
    print("started", json.dumps([options, secrets]), file=sys.stderr, flush=True)
    if behaviour.startswith("exit-"):
        print("the reason of it", file=sys.stderr)
        sys.exit(int(behaviour.removeprefix("exit-")))
    if behaviour == "silent":
        time.sleep(60)
    if behaviour == "garbled":
        print('polar-capture ready {"proxy": 1}', flush=True)
        time.sleep(60)

    def stop(*_: object) -> None:
        if behaviour != "stubborn":
            print("drained", file=sys.stderr, flush=True)
            os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    control = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Control)
    threading.Thread(target=control.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{control.server_address[1]}"
    ready = {"proxy": url, "control": url, "ca": "/ca", "db": "db", "pid": os.getpid(), "gateway": None, "web": None}
    print("some other line")
    print("polar-capture ready " + json.dumps(ready), flush=True)
    while sys.stdin.buffer.read(1024):
        pass
    stop()
    time.sleep(60)


main()
