-- Whether that transaction is still under way. A number that this server has not reached belongs to another history. The newest number is
-- taken, not read from a snapshot: that knows only of transactions that have ended.
SELECT CASE WHEN $1::bigint < pg_current_xact_id()::text::bigint
            THEN coalesce(pg_xact_status($1::text::xid8) = 'in progress', false) ELSE false END
