INSERT INTO letter_group (fingerprint, cause, error_type, sample, letters, failures, under_way, recovered, relapsed, first_seen,
                          last_seen, state, state_since)
VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, 0, ?5, ?5, 0, ?5)
