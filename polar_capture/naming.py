"""Names for sessions that nobody named."""

import re
import secrets
import time
from pathlib import PurePath


def new_session_id(program: str) -> str:
    """A readable unique session id: `<program>-<local time>-<6 hex digits>`, like `claude-20261201-114530-3f2a9c`."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(program).name).strip("-.")[:80] or "session"
    return f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
