"""The store: typed models, the durable writer, the codec of packed columns.

from polar_capture import store
with store.open("polar.db") as captured:
    for row in captured.calls("my-session"):
        prompt_ids, completion_ids, logprobs = captured.tokens(row["id"])
"""

from polar_capture.store.chains import Tokens
from polar_capture.store.codec import CodecError
from polar_capture.store.database import DatabaseError
from polar_capture.store.kept import tokens
from polar_capture.store.store import Store, open
from polar_capture.store.writer import Writer

__all__ = ["CodecError", "DatabaseError", "Store", "Tokens", "Writer", "open", "tokens"]
