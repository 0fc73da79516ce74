-- What comes next gets numbers behind all that came with the copy.
UPDATE redrive.store SET store_id = $1, event_base = greatest(event_base, $2 - (pg_current_xact_id()::text::bigint << 20)),
                         events = $3, failed_events = $4, pruned_to = $5
