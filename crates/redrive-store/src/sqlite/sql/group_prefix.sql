-- Groups with letters whose fingerprint begins so.
SELECT fingerprint FROM letter_group WHERE fingerprint >= ?1 AND fingerprint < ?2 AND letters > 0 LIMIT ?3
