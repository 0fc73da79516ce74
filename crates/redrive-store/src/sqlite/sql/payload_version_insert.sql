INSERT INTO payload_version (id, job_id, version, at, edited_by, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
