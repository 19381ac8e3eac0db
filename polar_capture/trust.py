"""The CA bundle for harnesses: public roots + the proxy's CA in one PEM file.

A bundle and not our CA alone, since most CA variables (SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, …) replace a
client's own roots: with the CA alone every host that the proxy tunnels blindly would fail.
"""

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

CA_VARIABLES = (
    "NODE_EXTRA_CA_CERTS",  # Node and Bun: Claude Code, Qwen Code, Pi, Gemini CLI, OpenCode, Copilot
    "SSL_CERT_FILE",  # OpenSSL, rustls-native-certs, Go, httpx: Codex, OpenCode, Copilot, litellm, Python SDKs
    "REQUESTS_CA_BUNDLE",  # requests: side calls of aider and OpenHands
    "CODEX_CA_CERTIFICATE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",  # boto3
    "PIP_CERT",
    "DENO_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",  # gRPC cores bring their own roots
)
"""Every variable by which a harness, or a program that it starts, can be told of a CA; all name the bundle."""

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class TrustError(Exception):
    """The bundle cannot be made; the message names path and cause."""


def certificates(pem: str) -> list[str]:
    """The PEM blocks of a text, in order."""
    return _CERTIFICATE.findall(pem)


def roots(environ: Mapping[str, str]) -> list[str]:
    """PEM blocks of what this machine trusts: the system's bundle (a company's own CA is in it), certifi's where the
    system has none, and every file that a CA variable names already (which the bundle is about to hide)."""
    blocks: list[str] = []
    for file in SYSTEM_BUNDLES:
        blocks = certificates(_text(file))
        if blocks:
            break
    else:
        import certifi

        blocks = certificates(_text(certifi.where()))
    for name in CA_VARIABLES:
        blocks += certificates(_text(environ.get(name, "")))
    return blocks


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace") if file else ""
    except OSError:
        return ""  # a variable may name a file that is gone; its client would not have used it either


def write_bundle(ca_pem: str, bundle: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Write the roots and then the certificates of `ca_pem` to `bundle`, each once, atomically.

    Raises TrustError when `ca_pem` holds no certificate or the file cannot be written.
    """
    own = certificates(ca_pem)
    if not own:
        raise TrustError(
            "the proxy's CA holds no PEM certificate: remove it and start the proxy again to get a new one"
        )
    text = "".join(block + "\n" for block in _once([*roots(environ), *own]))
    try:
        if bundle.exists() and bundle.read_text(encoding="utf-8") == text:
            return bundle
        draft = bundle.with_name(f"{bundle.name}.{secrets.token_hex(4)}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(bundle)
    except OSError as error:
        raise TrustError(
            f"cannot write the CA bundle {bundle}: {error.strerror}; give --home DIR another place"
        ) from error
    return bundle


def _once(blocks: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(blocks))
