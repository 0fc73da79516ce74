-- Whether it is ours to add up: until the end of this transaction nobody else does.
SELECT pg_try_advisory_xact_lock(s.store_id) FROM redrive.store s
