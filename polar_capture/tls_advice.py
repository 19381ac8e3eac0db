"""What to set when a client does not trust the proxy's CA: the first TLS failure is where every new user stands."""


def advice(host: str, error: str, ca: str) -> str:
    """The log line for a refused handshake. `ca` is the path of the CA certificate."""
    return (
        f"a client refused the proxy's certificate for {host} ({error.strip() or 'no reason given'}): it does not trust "
        f"the CA. Set, for Node harnesses (Qwen Code, Pi, Gemini CLI, Claude Code, OpenCode, Copilot), NODE_EXTRA_CA_CERTS={ca}; "
        f"for Codex, SSL_CERT_FILE or CODEX_CA_CERTIFICATE; for Python clients, SSL_CERT_FILE and REQUESTS_CA_BUNDLE, to a "
        f"bundle that holds it. `polar-capture env` prints the lines, `polar-capture run` sets them."
    )
