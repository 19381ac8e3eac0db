"""The queries that bring the links of a chain, nearest first, in one round trip."""

import numpy as np
import sqlalchemy as sa

from polar_capture.outcomes import Warning
from polar_capture.store import codec
from polar_capture.store.chains import Bodies, BodyLink, TokenLink, join_prompt
from polar_capture.store.contexts import NO_IDS, Body, Context
from polar_capture.store.models import Call

_KIND = {"sqlite": "substr(chain.prompt_ids, 2, 1) = x'02'", "postgresql": "get_byte(chain.prompt_ids, 1) = 2"}
"""True for a prompt that needs its parent: byte 1 of the header is TAIL."""


_TOKEN_LINKS = {
    name: sa.text(f"""
        WITH RECURSIVE chain (id, parent_call_id, prompt_ids, completion_ids, prompt_sha256, logprobs, level) AS (
            SELECT id, parent_call_id, prompt_ids, completion_ids, prompt_sha256, logprobs, 0 FROM calls WHERE id = :id
            UNION ALL
            SELECT c.id, c.parent_call_id, c.prompt_ids, c.completion_ids,
                   CASE WHEN 1 = 0 THEN c.prompt_sha256 END, CASE WHEN 1 = 0 THEN c.logprobs END, chain.level + 1
            FROM chain JOIN calls c ON c.id = chain.parent_call_id
            WHERE {needs_parent} AND chain.level < {codec.WHOLE_TOKENS_EVERY}
        )
        SELECT id, parent_call_id, prompt_ids, completion_ids, prompt_sha256, logprobs FROM chain ORDER BY level""")
    for name, needs_parent in _KIND.items()
}
_BODY_LINKS = sa.text("""
        WITH RECURSIVE chain (id, parent_call_id, level) AS (
            SELECT id, parent_call_id, 0 FROM calls WHERE id = :id
            UNION ALL
            SELECT c.id, c.parent_call_id, chain.level + 1
            FROM chain JOIN calls c ON c.id = chain.parent_call_id WHERE chain.level < :hops
        )
        SELECT c.id, c.parent_call_id, c.request, c.chat_request, c.message
        FROM chain JOIN calls c ON c.id = chain.id""")


def token_links(connection: sa.Connection, call_id: str) -> list[TokenLink]:
    """The call and its ancestors as far as its prompt needs them; empty for an unknown call. The first link alone has
    its hash and logprobs."""
    return [TokenLink(*row) for row in connection.execute(_TOKEN_LINKS[connection.dialect.name], {"id": call_id})]


def body_links(connection: sa.Connection, call_id: str, hops: int) -> dict[str, BodyLink]:
    """The call and at most `hops` ancestors, by id."""
    return {row[0]: BodyLink(*row) for row in connection.execute(_BODY_LINKS, {"id": call_id, "hops": hops})}


def bodies_of(connection: sa.Connection, call_id: str) -> Bodies:
    """The bodies of one call, with as many ancestors as they need. PostgreSQL and SQLite answer in one or two
    queries."""
    links = body_links(connection, call_id, 0)
    if not links:
        return Bodies(links.get)
    link = links[call_id]
    depths = [codec.body_header(packed).depth for packed in (link.request, link.chat_request) if packed is not None]
    hops = max(depths, default=0)
    return Bodies((body_links(connection, call_id, hops) if hops else links).get)


def load_tokens(connection: sa.Connection, call_id: str) -> Context | None:
    """The tokens of a call as its children see them; None for an unknown call."""
    links = token_links(connection, call_id)
    if not links:
        return None
    context = Context()
    target = links[0]
    if target.prompt_ids is not None:
        prompt = join_prompt(links)
        completion = NO_IDS if target.completion_ids is None else codec.unpack_own_ids(target.completion_ids)[1]
        context.tokens = np.concatenate((prompt, completion))
        context.tokens_depth = codec.tokens_header(target.prompt_ids).depth
    return context


def load_context(connection: sa.Connection, call_id: str) -> Context | None:
    """All that a call's children are packed against, read back from the database; None for an unknown call."""
    context = load_tokens(connection, call_id)
    if context is not None:
        bodies = bodies_of(connection, call_id)
        context.request = _body(bodies, call_id, "request")
        context.chat_request = _body(bodies, call_id, "chat_request")
        context.message = bodies.body(call_id, "message") or b""
        hops = context.request.depth % codec.KEY_HOPS[codec.BODY_VERSION] if context.request else 0
        context.said = bodies.said(call_id, hops + 1)
        warnings = connection.execute(sa.select(Call.warnings).where(Call.id == call_id)).scalar_one()
        context.secret = Warning.SECRET_IN_PROMPT in warnings
    return context


def _body(bodies: Bodies, call_id: str, column: str) -> Body | None:
    text, middle = bodies.with_middle(call_id, column)
    if text is None:
        return None
    header = bodies.header(call_id, column)
    hops = header.depth % codec.KEY_HOPS[codec.BODY_VERSION]
    key = bodies.body(bodies.ancestor(call_id, hops), column) if hops else None
    return Body(text, middle, header.depth, Body(key, b"", header.depth - hops, None) if key is not None else None)
