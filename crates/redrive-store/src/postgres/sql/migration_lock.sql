-- One at a time, for as long as the transaction lasts.
SELECT pg_advisory_xact_lock(hashtextextended('redrive migration ' || $1, 0))
