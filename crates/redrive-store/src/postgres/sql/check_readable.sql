-- Reads every cell; the database complains by itself about what it cannot read.
SELECT 'a row that cannot be read' FROM (
    SELECT hashtext(x::text) AS read FROM redrive.job x UNION ALL SELECT hashtext(x::text) FROM redrive.dead_letter x
    UNION ALL SELECT hashtext(x::text) FROM redrive.progress x UNION ALL SELECT hashtext(x::text) FROM redrive.lease x
    UNION ALL SELECT hashtext(x::text) FROM redrive.ended x UNION ALL SELECT hashtext(x::text) FROM redrive.event x
    UNION ALL SELECT hashtext(x::text) FROM redrive.aside x UNION ALL SELECT hashtext(x::text) FROM redrive.letter_report x
    UNION ALL SELECT hashtext(x::text) FROM redrive.letter_group x UNION ALL SELECT hashtext(x::text) FROM redrive.redrive_run x
    UNION ALL SELECT hashtext(x::text) FROM redrive.redrive_item x UNION ALL SELECT hashtext(x::text) FROM redrive.payload_version x
    UNION ALL SELECT hashtext(x::text) FROM redrive.hour_count x UNION ALL SELECT hashtext(x::text) FROM redrive.task x
    UNION ALL SELECT hashtext(x::text) FROM redrive.task_plan x UNION ALL SELECT hashtext(x::text) FROM redrive.subtask x
    UNION ALL SELECT hashtext(x::text) FROM redrive.escalation_ack x UNION ALL SELECT hashtext(x::text) FROM redrive.idempotency_keys x
    UNION ALL SELECT hashtext(x::text) FROM redrive.outbox x UNION ALL SELECT hashtext(x::text) FROM redrive.outbox_lane x
    UNION ALL SELECT hashtext(x::text) FROM redrive.saved_key x UNION ALL SELECT hashtext(x::text) FROM redrive.notice x
) y WHERE y.read IS NULL
