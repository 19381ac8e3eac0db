-- What `export` takes by default: proved or repaired samples with something to train on and a reward.
CREATE VIEW training_samples AS
SELECT
    t.id AS sample_id,
    t.strategy,
    t.session_id,
    t.group_id,
    t.task_id,
    s.sample_index,
    s.harness,
    s.harness_version,
    s.status AS session_status,
    t.agent,
    t.branch,
    t.verdict,
    t.delivered_fraction,
    t.prompt_len,
    t.length,
    json_array_length(t.turn_spans) AS turns,
    t.reward,
    t.advantage,
    t.policy_version_min,
    t.policy_version_max,
    t.finish_reason,
    t.turn_spans,
    t.breaks,
    t.input_ids,
    t.loss_mask,
    t.logprobs
FROM samples t
JOIN sessions s ON s.id = t.session_id
WHERE t.verdict IN ('exact', 'repaired') AND t.reward IS NOT NULL AND json_array_length(t.turn_spans) > 0
