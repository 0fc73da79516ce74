-- The first part of the name of the log that is written now is the timeline: it changes when a standby takes over.
SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), s.timeline FROM redrive.store s
