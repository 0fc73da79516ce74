INSERT INTO redrive.event_alias (event_id, seq) SELECT * FROM unnest($1::text[], $2::bigint[])
