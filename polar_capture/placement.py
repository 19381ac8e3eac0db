"""Where a call stands in its session, and what the rule file says of it."""

from polar_capture.call import Call
from polar_capture.rules import Facts, Rules


def place(call: Call, rules: Rules) -> None:
    """Fill in a call's parent, agent, kind, user turn and rule, once its sampled turns are restored."""
    hints, session = call.parsed.hints, call.session
    call.parent = call.restored.parent if call.restored else None
    if call.parent is None and hints.parent is not None:
        call.parent = session.turns.call_of(hints.parent)
    found = session.family.place(call.id, hints, call.parsed.chat, call.parent, session.harness)
    call.agent, call.kind, call.user_turn = found.agent, found.kind, found.user_turn
    call.rule = rules.find(
        Facts(
            hints.harness or session.harness,
            call.dialect.name,
            call.agent,
            call.kind,
            call.parsed.model_requested,
            call.wire.path,
            call.parsed.chat.messages,
        )
    )
    if call.rule is not None and call.rule.kind is not None:
        call.kind = call.rule.kind
