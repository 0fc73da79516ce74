-- Whether that transaction is still under way, and whether the operation was committed. A number that this server has not
-- reached belongs to another history: what was not copied from there is not here.
SELECT CASE WHEN $2::bigint < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
            THEN coalesce(pg_xact_status($2::text::xid8) = 'in progress', false) ELSE false END,
       EXISTS (SELECT 1 FROM redrive.operation o WHERE o.id = $1::text::uuid)
