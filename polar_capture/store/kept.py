"""`store.tokens`: the tokens of one call without opening anything by hand.

To open a database takes 20 ms, to read a turn 2: so the databases that were asked last stay open.
"""

import atexit
import os
import threading
from collections import OrderedDict
from typing import Any

from polar_capture.store.chains import Tokens
from polar_capture.store.store import Store
from polar_capture.store.store import open as open_store

_AT_MOST = 4
_lock = threading.Lock()
_stores: OrderedDict[str, Store] = OrderedDict()


def tokens(call: str | dict[str, Any], db: str | os.PathLike[str] | None = None) -> Tokens:
    """Prompt ids int32, completion ids int32 and logprobs float32 of a call, given its id or its row.

    `db` is a path or URL; by default POLAR_DB, or `polar.db` in the current folder. KeyError for an unknown call,
    DatabaseError for a database that can't be used, CodecError for a damaged call.
    """
    call_id = call if isinstance(call, str) else str(call["id"])
    where = os.fspath(db or os.environ.get("POLAR_DB", "sqlite:///polar.db"))
    with _lock:  # a store that is dropped must not be in use
        return _kept(where).tokens(call_id)


def _kept(where: str) -> Store:
    # A child process must not share its parent's connections, nor a bare path mean another folder's file.
    key = f"{os.getpid()} {os.getcwd()} {where}"
    store = _stores.pop(key, None)
    if store is not None and store.database.vanished():
        store.close()
        store = None
    if store is None:
        store = open_store(where, create=False)
        store.database.vanished()  # notes which file it is
    _stores[key] = store
    while len(_stores) > _AT_MOST:
        _stores.popitem(last=False)[1].close()
    return store


@atexit.register
def _close_all() -> None:
    with _lock:
        while _stores:
            _stores.popitem()[1].close()
