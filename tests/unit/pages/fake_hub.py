"""A model hub on loopback: what `huggingface_hub` asks for when it fetches some files of a model."""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Models = Mapping[str, Mapping[str, bytes]]


@contextlib.contextmanager
def hub(models: Models) -> Iterator[tuple[str, list[str]]]:
    """Serve `models` (name → file → content); its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            path = self.path.partition("?")[0]
            asked.append(path)
            content = self._listing(path) if path.startswith("/api/models/") else self._file(path)
            self.send_response(200 if content is not None else 404)
            if content is None:
                self.send_header("X-Error-Code", "EntryNotFound" if "/resolve/" in path else "RepoNotFound")
            else:
                self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
                self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if body and content:
                self.wfile.write(content)

        @staticmethod
        def _listing(path: str) -> bytes | None:
            name = path.removeprefix("/api/models/").partition("/revision/")[0].partition("/tree/")[0]
            if name not in models:
                return None
            if "/tree/" in path:
                tree = [
                    {"type": "file", "path": file, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                    for file, content in models[name].items()
                ]
                return json.dumps(tree).encode()
            files = [{"rfilename": file} for file in models[name]]
            return json.dumps({"id": name, "modelId": name, "sha": COMMIT, "siblings": files}).encode()

        @staticmethod
        def _file(path: str) -> bytes | None:
            name, _, rest = path.lstrip("/").partition("/resolve/")
            return models.get(name, {}).get(rest.partition("/")[2])

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
