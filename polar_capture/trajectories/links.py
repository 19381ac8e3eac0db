"""From a session's calls to a tree: each call's parent by token identity, and the measured break where it has lost
one."""

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from polar_capture.outcomes import Break
from polar_capture.trajectories.breaks import classify, glue
from polar_capture.trajectories.conversations import Conversation
from polar_capture.trajectories.rows import BreakRecord, CallRow, Int32Array
from polar_capture.trajectories.tree import Place, TokenTree

Conversations = Callable[[str], Conversation | None]
"""Looks up what a call said, by its id; asked only where a chain broke. None where it is not known."""

_HELD = np.empty(0, np.int32)
"""Stands in a linked row for the prompt, which the tree holds."""


class Link(msgspec.Struct):
    """A call in the tree of its session."""

    place: Place
    parent: "Link | None" = None
    """The call that this one continues exactly."""
    broken: BreakRecord | None = None
    glue: Int32Array | None = None
    """The template's block by which alone this call misses its predecessor, where that is proved."""
    thinking_off: bool = False
    """The predecessor's request asked for no thinking; known only where there is `glue`."""
    predecessor: "Link | None" = None
    """The call that it was measured against, where there is a break."""
    continued: bool = False
    """Another call continues this one: its answer has reached the client."""

    @property
    def row(self) -> CallRow:
        return self.place.row


class SessionTree(msgspec.Struct):
    """The calls of one session with ids, linked, in order of arrival; `without_ids` are the others."""

    tokens: TokenTree
    links: dict[str, Link]
    without_ids: list[CallRow]

    def path(self, link: Link) -> list[Link]:
        """The calls from the root to this one."""
        found = [link]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found[::-1]


def link_session(rows: Iterable[CallRow], conversations: Conversations = lambda call_id: None) -> SessionTree:
    """Builds the tree of one session. The rows may come in any order; where they come in order of arrival as an
    iterator, no more than one prompt is held beside the tree."""
    tree = SessionTree(TokenTree(), {}, [])
    latest: dict[str, Link] = {}
    gaps: dict[str, int] = {}
    hole, last = -1, -1
    for row in _in_order(rows):
        if row.seq > last + 1:
            hole = row.seq - 1  # whose call it was that has no row is not known: a gap for every agent
        last = row.seq
        if not row.has_ids:
            tree.without_ids.append(row)
            if row.status == "ok" and row.kind == "turn":
                gaps[row.agent] = row.seq
            continue
        place = tree.tokens.add(row)
        place.row = msgspec.structs.replace(row, prompt_ids=_HELD)
        link = Link(place)
        _attach(tree, link, latest.get(row.agent), max(gaps.get(row.agent, -1), hole), conversations)
        tree.links[row.id] = link
        if row.kind == "turn":
            latest[row.agent] = link
    return tree


def _in_order(rows: Iterable[CallRow]) -> Iterable[CallRow]:
    """The rows by order of arrival: as they come when they already do (as from the store), else sorted."""
    if not isinstance(rows, list | tuple):
        return rows
    return sorted(rows, key=lambda row: row.order)


def _attach(tree: SessionTree, link: Link, latest: Link | None, gap: int, conversations: Conversations) -> None:
    place = link.place
    twins = [tree.links[other.row.id] for other in tree.tokens.continued_by(place)]
    if twins:
        # Equal attempts at one turn: the one known to have been delivered, else the last.
        link.parent = max(twins, key=lambda twin: (_delivery(twin.row), twin.row.order))
        link.parent.continued = True
        if link.parent.row.seq < gap < link.row.seq and link.parent.row.agent == link.row.agent:
            _break(link, link.parent, Break.CAPTURE_GAP, link.parent.place.full_len)
            link.parent = None
            return
    candidates = _candidates(tree, link, latest)
    if not candidates:
        return
    at, predecessor = _closest(tree, link, candidates)
    parent_len = link.parent.place.full_len if link.parent is not None else 0
    if link.parent is not None and (at <= parent_len or predecessor.row.agent != link.row.agent):
        return
    if predecessor.row.agent != link.row.agent and latest is None:
        _break(link, predecessor, Break.NEW_CONVERSATION, at)
        return
    said, said_earlier = conversations(link.row.id), conversations(predecessor.row.id)
    sampled = _sampled_at(tree, predecessor, at)
    cause = classify(
        tree.tokens, place, predecessor.place, at, sampled.place if sampled is not None else None, said, said_earlier
    )
    _break(link, predecessor, cause, at)
    if cause is Break.THINKING_DROPPED and link.parent is None:
        link.glue = glue(tree.tokens, predecessor.place, tree.tokens.tokens(place, 0, place.prompt_len), at)
        link.thinking_off = said_earlier is not None and said_earlier.thinking_off


def _delivery(row: CallRow) -> int:
    return {True: 2, None: 1, False: 0}[row.delivered]


def _candidates(tree: SessionTree, link: Link, latest: Link | None) -> list[Link]:
    """Earlier calls that this one may have been meant to continue, the likeliest first."""
    row = link.row
    hinted = tree.links.get(row.parent_call_id) if row.parent_call_id is not None else None
    nearest = tree.links.get(link.place.owner.row.id) if link.place.owner is not None else None
    found: list[Link] = []
    for candidate in (hinted, latest, nearest):
        if candidate is not None and candidate.row.seq < row.seq and candidate not in found:
            found.append(candidate)
    return found


def _closest(tree: SessionTree, link: Link, candidates: list[Link]) -> tuple[int, Link]:
    """The candidate whose tokens agree longest with the prompt; the likeliest of equals. Own agent first for a root."""
    own = [c for c in candidates if c.row.agent == link.row.agent]
    if link.parent is None and own:
        candidates = own
    agreed = [(tree.tokens.agreement(link.place, candidate.place), candidate) for candidate in candidates]
    return max(agreed, key=lambda pair: pair[0])


def _sampled_at(tree: SessionTree, link: Link, at: int) -> Link | None:
    """The call on the path to `link` whose completion holds position `at` (its end included)."""
    current: Link | None = link
    while current is not None and current.place.prompt_len > at:
        current = current.parent
    if current is None or at >= current.place.full_len:
        return None
    return current


def _break(link: Link, predecessor: Link, cause: Break, at: int) -> None:
    lost = predecessor.place.full_len - at
    link.broken = BreakRecord(link.row.id, str(cause), at, lost, predecessor.row.id)
    link.predecessor = predecessor
