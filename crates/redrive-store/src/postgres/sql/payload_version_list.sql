SELECT id, version, at, edited_by, payload FROM redrive.payload_version WHERE job_id = $1 ORDER BY version
