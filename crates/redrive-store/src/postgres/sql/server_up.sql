-- Since when this server can be written to: its start, or the moment when it took over.
SELECT greatest(floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint, s.timeline_since) FROM redrive.store s
