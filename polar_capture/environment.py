"""What a harness needs in its environment: the proxy with the session's credentials, the CA, and keys to start at all.

Nothing else is set, so that the harness behaves as it does without us; and nothing of ours that could reach the
database or the control host is handed down (DESIGN §2, invariant 7).
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import msgspec

from polar_capture.config import ConfigError, check_session_id
from polar_capture.trust import CA_VARIABLES

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
"""Both spellings: curl reads only the lower case of http_proxy, others only upper case."""

LOOPBACK = "localhost,127.0.0.1,::1"
"""NO_PROXY: local tools of a harness (language servers, MCP) stay local. What was there before is left out, because an
entry for a provider's host would let its calls slip past the proxy."""

NO_KEY = "capture"
"""Proxy password where none is asked: undici (Pi, Qwen, Gemini) sends credentials only where both user and password are
there."""

DUMMY_KEY = "polar-capture-placeholder"

DUMMY_KEYS: Mapping[str, tuple[str, ...]] = {
    "ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "OPENAI_API_KEY": (),
    "CODEX_API_KEY": (),
    "GEMINI_API_KEY": ("GOOGLE_API_KEY",),
    "GOOGLE_GENERATIVE_AI_API_KEY": (),
    "LLM_API_KEY": (),
}
"""Keys without which harnesses do not start (no one checks them), and the variables that make each needless."""

BASE_URL_VARIABLES = (
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "GOOGLE_GEMINI_BASE_URL",
    "GEMINI_API_BASE",
    "LLM_BASE_URL",
    "COPILOT_PROVIDER_BASE_URL",
)
"""Variables that send a harness to another host than its provider's; left as they are, and named when nothing came."""

OWN_PREFIX = "POLAR_"
"""POLAR_CONTROL_TOKEN, POLAR_DB, POLAR_KEY, …: none of them is for a policy's eyes."""

SECRETS = ("POLAR_CONTROL_TOKEN", "POLAR_DB", "POLAR_KEY")


class Endpoint(msgspec.Struct, frozen=True):
    """Where a session finds its proxy. `proxy` is the bare URL, `http://127.0.0.1:8080`; `bundle` the CA bundle."""

    proxy: str
    bundle: Path
    session: str
    key: str | None = None

    @property
    def url(self) -> str:
        """The proxy URL with the session as user and the key as password."""
        parts = urlsplit(self.proxy)
        user = f"{check_session_id(self.session)}:{quote(self.key or NO_KEY, safe='')}"
        return urlunsplit((parts.scheme, f"{user}@{parts.netloc.rpartition('@')[2]}", "", "", ""))


def proxy_address(text: str) -> tuple[str, str | None]:
    """A proxy URL as (bare URL, key): `http://any:KEY@host:8080` or `host:8080`. Raises ConfigError for others."""
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"--proxy {text!r} is no URL: write it like http://127.0.0.1:8080") from None
    if parts.scheme != "http" or not parts.hostname or not port:
        raise ConfigError(f"--proxy {text!r}: write it like http://127.0.0.1:8080")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"http://{host}:{port}", unquote(parts.password) if parts.password else None


def proxy_addresses(text: str) -> list[tuple[str, str | None]]:
    """One proxy URL or several, split at commas and blanks: the workers of one `serve`."""
    return [proxy_address(part) for part in re.split(r"[\s,]+", text) if part] or [proxy_address(text)]


def variables(endpoint: Endpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to set for a harness that starts from `environ`."""
    result = dict.fromkeys(PROXY_VARIABLES, endpoint.url)
    result |= {"NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK}
    result |= dict.fromkeys(CA_VARIABLES, str(endpoint.bundle))
    result["NODE_USE_ENV_PROXY"] = "1"  # Node's own fetch, which the JavaScript SDKs use, ignores HTTPS_PROXY otherwise
    for name, alternatives in DUMMY_KEYS.items():
        if not environ.get(name) and not any(environ.get(other) for other in alternatives):
            result[name] = DUMMY_KEY
    return result


def child_environment(endpoint: Endpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a harness: `environ` without anything of ours, and the variables it needs."""
    kept = {name: value for name, value in environ.items() if not name.startswith(OWN_PREFIX)}
    return kept | variables(endpoint, environ)


def evaluator_environment(environ: Mapping[str, str], session: str) -> dict[str, str]:
    """The environment of a reward command: the user's own, without the session's proxy, and its id in POLAR_SESSION.

    Our secrets stay out here too: an evaluator runs tests and programs that the agent has written.
    """
    return {name: value for name, value in environ.items() if name not in SECRETS} | {"POLAR_SESSION": session}


def render(values: Mapping[str, str], unset: tuple[str, ...], shell: str) -> str:
    """Lines that set and unset variables in `sh` (bash, zsh), `fish` or `powershell`; `json` has the values alone."""
    if shell == "json":
        return msgspec.json.format(msgspec.json.encode(values), indent=2).decode()
    if shell == "fish":
        lines = [f"set -gx {name} {_fish(value)}" for name, value in values.items()]
        return "\n".join(lines + [f"set -e {name}" for name in unset])
    if shell == "powershell":
        lines = [f"$env:{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in values.items()]
        return "\n".join(lines + [f"Remove-Item Env:{name} -ErrorAction SilentlyContinue" for name in unset])
    lines = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    return "\n".join(lines + [f"unset {name}" for name in unset])


def _fish(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
