-- One row a call (a choice, where n > 1) without the packed columns, and how it stands to its parent.
CREATE VIEW call_summary AS
SELECT
    c.id AS call_id,
    c.session_id,
    c.seq,
    c.choice_index,
    c.agent,
    c.kind,
    c.user_turn,
    c.parent_call_id,
    c.attempt,
    c.dialect,
    c.host,
    c.path,
    c.model_requested,
    c.model_served,
    c.status,
    c.http_status,
    c.error,
    c.trainable,
    c.reason,
    c.warnings,
    c.streamed,
    c.delivered,
    c.started_at,
    c.finished_at,
    c.finished_at - c.started_at AS seconds,
    c.upstream_ms,
    c.finish_reason,
    c.stop_reason,
    c.prompt_tokens,
    c.completion_tokens,
    c.prefix_len,
    c.prompt_tokens - c.prefix_len AS new_prompt_tokens,
    CASE
        WHEN p.prompt_tokens + p.completion_tokens IS NULL THEN NULL
        WHEN c.prefix_len = p.prompt_tokens + p.completion_tokens THEN 1
        ELSE 0
    END AS extends_parent,
    c.logprobs_mode,
    c.policy_version,
    c.policy_label,
    c.continuation
FROM calls c
LEFT JOIN calls p ON p.id = c.parent_call_id
