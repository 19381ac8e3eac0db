"""One HTML document that needs no network: its data as inert JSON, its own script and style by their hashes.

The Content-Security-Policy allows exactly these two, so that no captured text can ever run, whatever a mistake in the
script would make of it.
"""

import base64
import hashlib
import html
import json
from importlib import resources
from typing import Any

_ASSETS = resources.files(__package__) / "assets"
_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{script_hash}'; \
style-src '{style_hash}'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws captured tokens with its own script: allow it, or use
<code>polar-capture show</code>.</noscript>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def document(title: str, data: Any, scripts: list[str]) -> str:
    """The page. `data` is any JSON value; `scripts` names files of `assets`, joined in order."""
    style = _asset("page.css")
    script = '"use strict";\n' + "\n".join(_asset(name) for name in scripts)
    return _DOCUMENT.format(
        title=html.escape(title),
        data=inert_json(data),
        style=style,
        script=script,
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def inert_json(value: Any) -> str:
    """JSON in ASCII without any character that HTML reads: `</script>`, `<!--` and U+2028 cannot occur."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
