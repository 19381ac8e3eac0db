"""From a CallRecord to a row of `calls`: exact common prefix with the parent, packed arrays and bodies, hash, escaped
texts."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from polar_capture.outcomes import Reason, Warning
from polar_capture.store import codec
from polar_capture.store.chains import BODY_COLUMNS
from polar_capture.store.contexts import NO_IDS, Body, Context, RecentContexts
from polar_capture.store.escaping import escape
from polar_capture.store.records import CallRecord
from polar_capture.store.redaction import Patterns, clean_line, holds_credential, without_named

LoadContext = Callable[[str], Context | None]

_TEXTS = (
    "id", "session_id", "agent", "kind", "user_turn", "parent_call_id", "dialect", "host", "path", "model_requested",
    "model_served", "upstream", "status", "reason", "error", "finish_reason", "stop_reason", "logprobs_mode",
    "policy_label", "continuation",
)  # fmt: skip

_WORTH_A_LOOK, _PLACES = 1024, 64
_AROUND = 256
_KEY_HOPS = codec.KEY_HOPS[codec.BODY_VERSION]


class Packer:
    """Packs calls in their order of arrival. `load` reads the context of a call that is no longer remembered, None
    where the database does not have it; then the child is packed whole."""

    def __init__(
        self, load: LoadContext, contexts: RecentContexts | None = None, patterns: Patterns | None = None
    ) -> None:
        self._load = load
        self._patterns = patterns or Patterns()
        self.contexts = contexts or RecentContexts()

    def pack(self, record: CallRecord) -> dict[str, Any]:
        """The row by column name. ValueError, naming the call, where ids are no token ids."""
        parent = self._parent(record.parent_call_id)
        own = Context()
        found = None
        if parent and parent.request and record.request is not None:
            found = codec.change(parent.request.text, record.request)
        clean = self._without_credentials(record, parent, own, found)
        if clean.request is not record.request:
            found = None
        row = msgspec.structs.asdict(clean)
        del row["minted"]
        for name in _TEXTS:
            row[name] = escape(row[name])
        try:
            row.update(self._tokens(clean, parent, own))
        except ValueError as error:
            raise ValueError(f"call {record.id}: {error}") from None
        row["request"] = self._body(clean.request, "request", parent, own, found)
        row["chat_request"] = self._body(clean.chat_request, "chat_request", parent, own)
        row["message"] = None if clean.message is None else codec.pack_body(clean.message)
        own.message = clean.message or b""
        goes_on = parent is not None and own.request is not None and own.request.key is not own.request
        own.said = (*(parent.said if parent and goes_on else ()), own.message)
        self.contexts.put(record.id, own)
        if record.parent_call_id is not None:
            self.contexts.retire(record.parent_call_id)
        return row

    def _without_credentials(
        self, record: CallRecord, parent: Context | None, own: Context, found: codec.Change | None
    ) -> CallRecord:
        changes: dict[str, Any] = {name: clean_line(getattr(record, name)) for name in ("path", "upstream", "error")}
        request = record.request
        own.secret = bool(parent and parent.secret) or holds_credential(record.message or b"")
        if request:
            head, tail = (found.head, found.tail) if found else (0, 0)
            # Only what is new in this turn is looked at, and a little around it: its name may stand in what is not.
            window = slice(max(0, head - _AROUND), len(request) - max(0, tail - _AROUND))
            own.secret = own.secret or holds_credential(request[window])
            changes["request"] = without_named(request, window)
        if own.secret and Warning.SECRET_IN_PROMPT not in record.warnings:
            changes["warnings"] = [*record.warnings, Warning.SECRET_IN_PROMPT.value]
        record = msgspec.structs.replace(record, **changes)
        return self._patterned(record) if self._patterns else record

    def _patterned(self, record: CallRecord) -> CallRecord:
        texts = {name: getattr(record, name) for name in BODY_COLUMNS}
        cut: dict[str, Any] = {name: self._patterns.cut(text) for name, text in texts.items()}
        if cut != texts and record.trainable:
            cut |= {"trainable": False, "reason": Reason.REDACTED.value}
        if record.error is not None:
            cut["error"] = (self._patterns.cut(record.error.encode("utf-8", "surrogatepass")) or b"").decode(
                "utf-8", "surrogatepass"
            )
        return msgspec.structs.replace(record, **cut)

    def _parent(self, call_id: str | None) -> Context | None:
        if call_id is None:
            return None
        context = self.contexts.get(call_id)
        if context is None and (context := self._load(call_id)) is not None:
            self.contexts.put(call_id, context)
        return context

    def _tokens(self, record: CallRecord, parent: Context | None, own: Context) -> dict[str, Any]:
        columns: dict[str, Any] = {"prompt_sha256": None, "prompt_ids": None, "completion_ids": None, "logprobs": None}
        completion = NO_IDS
        if record.completion_ids is not None:
            completion = codec.as_int32(record.completion_ids)
            columns["completion_ids"] = codec.pack_ids(completion)
        if record.logprobs is not None:
            columns["logprobs"] = codec.pack_logprobs(record.logprobs)
        if record.prompt_ids is None:
            return columns
        known = _proved_prefix(record, parent)
        prompt = codec.as_int32(record.prompt_ids[known:])
        if known and parent is not None:
            prompt = np.concatenate((parent.tokens[:known], prompt))
        shared = 0
        if parent is not None:
            shared = known + codec.common_prefix(parent.tokens[known:], prompt[known:])
            columns["prefix_len"] = shared
        # A chain pays where it saves: behind a compaction a short common head is not worth a link.
        link = shared if parent is not None and shared * 8 >= len(prompt) else 0
        columns["prompt_ids"] = packed = codec.pack_ids(prompt, link, parent.tokens_depth if parent else 0)
        before = parent.prompt_hash if parent and parent.prompt_hash and parent.prompt_hash.size <= shared else None
        own.prompt_hash = codec.PromptHash(prompt, before)
        columns["prompt_sha256"] = own.prompt_hash.digest()
        own.tokens = np.concatenate((prompt, completion)) if len(completion) else prompt
        own.tokens_depth = codec.tokens_header(packed).depth
        return columns

    def _body(
        self,
        text: bytes | None,
        column: str,
        parent: Context | None,
        own: Context,
        found: codec.Change | None = None,
    ) -> bytes | None:
        """`found` is the change against the parent's body, where it is known."""
        if text is None:
            return None
        base: Body | None = getattr(parent, column) if parent else None
        depth = (base.depth + 1) % codec.WHOLE_BODY_EVERY if base else 0
        kind, beside, key = codec.WHOLE, b"", None
        if column == "chat_request" and own.request is not None:
            beside = own.request.middle
        if base is not None and parent is not None and depth % _KEY_HOPS:
            kind, key = codec.AGAINST_PARENT, base.key
            if column == "request":
                beside = parent.message  # the sampled turn comes back inside the next request
        elif base is not None and parent is not None and depth:
            kind, base, found = codec.AGAINST_KEY, base.key, None
            if column == "request":
                beside = b"".join(parent.said)
        elif column == "chat_request" and own.request is not None:
            kind, base, beside = codec.AGAINST_REQUEST, own.request, b""
        if kind == codec.WHOLE or base is None:
            packed, middle = codec.pack_body(text), text
        else:
            found = found or codec.change(base.text, text)
            packed, middle = codec.pack_change(kind, depth, column, base.text, found, beside), found.middle
        setattr(own, column, Body(text, middle, depth, key))
        return packed


def _proved_prefix(record: CallRecord, parent: Context | None) -> int:
    """How many leading ids can be taken from the parent instead of being converted again, which costs 1 ms for 70,000
    of them.

    The lineage proved them by hash; a look at some of them guards against a wrong parent.
    """
    ids = record.prompt_ids
    if parent is None or ids is None or isinstance(ids, np.ndarray):
        return 0
    known = min(record.prefix_len, len(parent.tokens), len(ids))
    if known < _WORTH_A_LOOK:
        return 0
    places = np.linspace(0, known - 1, _PLACES, dtype=np.int64)
    looked = [ids[place] for place in places.tolist()]
    return known if looked == parent.tokens[places].tolist() else 0
