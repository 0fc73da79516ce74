-- The transaction's own number, before anything is read: whoever reads an old key has a number from before the new one.
SELECT pg_current_xact_id()::text::bigint
