"""Credentials never reach the disk: what is one by its name is cut out, what looks like one inside a prompt is flagged.

A text that a configured pattern cuts is no longer what its token ids say: the ids would still leak it, so such a call
is marked `redacted` and not trained on.
"""

import json
import os
import re
from collections.abc import Iterable
from functools import lru_cache

REDACTED = "[redacted]"
PATTERNS_VARIABLE = "POLAR_REDACT"
"""Environment variable with further patterns, one regular expression a line, that are cut out of everything stored."""

_NAMES = (
    rb"(?:proxy-)?authorization|authorization_token|(?:x-)?api[-_]?key|x-goog-api-key|apikey|access[-_]?token|"
    rb"refresh[-_]?token|id[-_]?token|(?:api|auth|bearer|session|security)[-_]?token|client[-_]?secret|"
    rb"secret[-_]?access[-_]?key|secret(?:[-_]?key)?|private[-_]?key|password|passwd|cookie|set-cookie|"
    rb"x-[\w-]{1,40}?(?:token|key|secret)"
)
_NAMED = re.compile(rb'("(?:' + _NAMES + rb')"\s*:\s*")((?:[^"\\]|\\.)+)(?=")', re.IGNORECASE)
_QUERY = re.compile(
    r"([?&](?:key|api[-_]?key|access[-_]?token|token|auth|sig|signature|password)=)[^&#\s]+", re.IGNORECASE
)
_IN_URL = re.compile(
    rb'(://)[^/@\s"\\]+(?=@)|([?&](?i:key|api[-_]?key|access[-_]?token|token|auth|sig|signature|password)=)'
    rb'[^&#\s"\\]+'
)
_FIRST_LOOK = (
    re.compile(_NAMED.pattern),
    re.compile(rb'://[^/@\s"\\]+@'),
    re.compile(rb'[?&](?:key|api[-_]?key|access[-_]?token|token|auth|sig|signature|password)=[^&#\s"\\]'),
)
"""What _NAMED and _IN_URL find, for text in lower case. Each begins with a character of its own, so that `re` skips to
it: a quarter of the time, and this is done for each turn."""
_USER = re.compile(r"(\w+://)[^/@\s]+@")
_SHAPES = {
    "sk-": r"sk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{20,}",
    **{begin: begin + r"[A-Za-z0-9]{36,}" for begin in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")},
    "github_pat_": r"github_pat_[A-Za-z0-9_]{40,}",
    "glpat-": r"glpat-[A-Za-z0-9_-]{20,}",
    "AKIA": r"AKIA[0-9A-Z]{16}",
    "AIza": r"AIza[0-9A-Za-z_-]{35}",
    "xox": r"xox[abprs]-[A-Za-z0-9-]{20,}",
    "hf_": r"hf_[A-Za-z0-9]{30,}",
    "npm_": r"npm_[A-Za-z0-9]{36}",
    "-----BEGIN ": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "eyJ": r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
}
"""How well-known keys look, by how they begin."""
_SHAPED = [(begin.encode(), re.compile(rf"(?<![A-Za-z0-9])(?:{shape})".encode())) for begin, shape in _SHAPES.items()]
_SHAPED_TEXT = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_SHAPES.values())})")
_BEARER = re.compile(r"\b(Bearer|Basic) [A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_CONVERSATION = frozenset(
    ("messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions", "prompt")
)
"""Members of a request that the model reads: what stands there is in the prompt's token ids anyway."""


def without_named(body: bytes, window: slice = slice(None)) -> bytes:
    """A JSON body with the string values of credential-named members replaced (`"api_key": "[redacted]"`), and what is
    secret in its URLs, where one of them is within `window`. The conversation itself (a tool's argument named
    `password`) stays: it was sampled on."""
    seen = body[window].lower()
    if not any(pattern.search(seen) for pattern in _FIRST_LOOK):
        return body
    try:
        decoded = json.loads(body)
    except ValueError:
        return _IN_URL.sub(_cut, _NAMED.sub(_cut, body))
    outside = (
        {name: value for name, value in decoded.items() if name not in _CONVERSATION}
        if isinstance(decoded, dict)
        else {}
    )
    kept = json.dumps(outside, ensure_ascii=False).encode("utf-8", "surrogatepass")
    for pattern, part in ((_NAMED, 2), (_IN_URL, 0)):
        secrets = {match[part] for match in pattern.finditer(kept)}
        if secrets:
            body = pattern.sub(lambda match: _cut(match) if match[part] in secrets else match[0], body)  # noqa: B023
    return body


def _cut(match: re.Match[bytes]) -> bytes:
    return (match[1] or match[2]) + REDACTED.encode()


def holds_credential(text: bytes) -> bool:
    """True where something has the shape of a well-known key: an API key, a private key, a signed token."""
    # Python's re would try each shape at each byte; almost no text has even the beginning of one.
    return any(begin in text and shape.search(text) is not None for begin, shape in _SHAPED)


@lru_cache(maxsize=256)  # hosts, paths and engines are few
def clean_line(text: str | None) -> str | None:
    """A path, URL or error message without credentials in its query, its user part or its words."""
    if text is None:
        return None
    text = _USER.sub(r"\1", _QUERY.sub(rf"\1{REDACTED}", text))
    return _SHAPED_TEXT.sub(REDACTED, _BEARER.sub(rf"\1 {REDACTED}", text))


class Patterns:
    """The configured patterns. ValueError, naming it, for one that is no regular expression."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._compiled: list[re.Pattern[bytes]] = []
        for pattern in patterns:
            try:
                self._compiled.append(re.compile(pattern.encode()))
            except re.error as error:
                raise ValueError(
                    f"{pattern!r} is no regular expression ({error}): correct {PATTERNS_VARIABLE}"
                ) from None

    @classmethod
    def from_environment(cls) -> "Patterns":
        """Those of POLAR_REDACT."""
        return cls(line for line in os.environ.get(PATTERNS_VARIABLE, "").splitlines() if line.strip())

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def cut(self, body: bytes | None) -> bytes | None:
        """The body with every match replaced."""
        if body is None:
            return None
        for pattern in self._compiled:
            body = pattern.sub(REDACTED.encode(), body)
        return body
