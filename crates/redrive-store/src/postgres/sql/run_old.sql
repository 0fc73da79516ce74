-- Runs that were over before; the newest stays, as it does where its number would be given again.
WITH gone AS (
    DELETE FROM redrive.redrive_run WHERE id = ANY (ARRAY(
        SELECT r.id FROM redrive.redrive_run r
        WHERE r.state <> 0 AND r.ended_at < $1 AND r.id < (SELECT max(n.id) FROM redrive.redrive_run n) ORDER BY r.id LIMIT $2))
    RETURNING id
)
DELETE FROM redrive.redrive_item WHERE run_id IN (SELECT id FROM gone)
