-- One row a group: its sessions and the statistics of their rewards, each session counted once (variance with ddof 1).
CREATE VIEW group_summary AS
SELECT
    g.group_id,
    MIN(g.task_id) AS task_id,
    COUNT(*) AS sessions,
    COUNT(CASE WHEN g.status = 'open' THEN 1 END) AS open_sessions,
    COUNT(CASE WHEN g.status = 'completed' THEN 1 END) AS completed_sessions,
    COUNT(g.reward) AS rewarded,
    AVG(g.reward) AS reward_mean,
    CASE
        WHEN COUNT(g.reward) > 1
        THEN (SUM(g.reward * g.reward) - SUM(g.reward) * SUM(g.reward) / COUNT(g.reward)) / (COUNT(g.reward) - 1)
    END AS reward_variance,
    MIN(g.reward) AS reward_min,
    MAX(g.reward) AS reward_max,
    CASE WHEN COUNT(g.reward) > 1 AND MIN(g.reward) = MAX(g.reward) THEN 1 ELSE 0 END AS zero_variance,
    CAST(SUM(g.turns) AS BIGINT) AS turns,
    CAST(SUM(g.trainable_calls) AS BIGINT) AS trainable_calls,
    CAST(SUM(g.completion_tokens) AS BIGINT) AS completion_tokens,
    MIN(g.started_at) AS started_at,
    MAX(g.ended_at) AS ended_at
FROM session_summary g
WHERE g.group_id IS NOT NULL
GROUP BY g.group_id
