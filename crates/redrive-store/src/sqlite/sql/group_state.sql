UPDATE letter_group SET state = ?2, state_since = ?3, note = ?4 WHERE fingerprint = ?1
