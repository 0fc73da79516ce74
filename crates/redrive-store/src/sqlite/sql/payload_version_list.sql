SELECT id, version, at, edited_by, payload FROM payload_version WHERE job_id = ?1 ORDER BY version
