-- One row a session: what was captured, what of it can be trained on, what it earned.
CREATE VIEW session_summary AS
SELECT
    s.id AS session_id,
    s.task_id,
    s.group_id,
    s.sample_index,
    s.harness,
    s.harness_version,
    s.status,
    s.started_at,
    s.ended_at,
    COUNT(c.session_id) AS calls,
    COUNT(CASE WHEN c.kind = 'turn' THEN 1 END) AS turns,
    COUNT(CASE WHEN c.trainable THEN 1 END) AS trainable_calls,
    COUNT(CASE WHEN c.status = 'error' THEN 1 END) AS errors,
    COUNT(CASE WHEN c.status = 'aborted' THEN 1 END) AS aborted,
    COUNT(CASE WHEN c.delivered THEN 1 END) AS delivered_calls,
    CAST(COALESCE(SUM(c.prompt_tokens), 0) AS BIGINT) AS prompt_tokens,
    CAST(COALESCE(SUM(c.completion_tokens), 0) AS BIGINT) AS completion_tokens,
    MAX(c.prompt_tokens) AS longest_prompt,
    COALESCE(SUM(c.upstream_ms), 0.0) AS upstream_ms,
    MIN(c.started_at) AS first_call_at,
    MAX(c.finished_at) AS last_call_at,
    MIN(c.policy_version) AS policy_version_min,
    MAX(c.policy_version) AS policy_version_max,
    (SELECT r.value FROM rewards r WHERE r.session_id = s.id AND r.name = 'outcome' AND r.call_id IS NULL
     ORDER BY r.created_at DESC, r.id DESC LIMIT 1) AS reward
FROM sessions s
LEFT JOIN calls c ON c.session_id = s.id
GROUP BY s.id, s.task_id, s.group_id, s.sample_index, s.harness, s.harness_version, s.status, s.started_at, s.ended_at
