INSERT INTO redrive.letter_report (job_id, context, report) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
