SELECT id, fingerprint, cause, error_type, sample, letters, failures, under_way, recovered, relapsed, first_seen, last_seen,
       state, state_since, note
FROM letter_group
