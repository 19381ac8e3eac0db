"""What to set when a client does not trust the proxy's CA: the first TLS failure is where every new user stands."""


def advice(host: str, error: str, ca: str) -> str:
    """The log line for a refused handshake. `ca` is the path of the CA certificate."""
    reason = error.strip() or "no reason given"
    return (
        f"a client refused the proxy's certificate for {host} ({reason}): it does not trust the CA. Set, "
        "for Node harnesses (Qwen Code, Pi, Gemini CLI, Claude Code, OpenCode, Copilot), "
        f"NODE_EXTRA_CA_CERTS={ca}; for Codex, SSL_CERT_FILE or CODEX_CA_CERTIFICATE; for Python clients, "
        "SSL_CERT_FILE and REQUESTS_CA_BUNDLE, each to a bundle that holds it. `polar-capture env` prints the lines, "
        "`polar-capture run` sets them."
    )
