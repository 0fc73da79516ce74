UPDATE letter_group SET letters = letters + ?2, failures = failures + ?3, under_way = under_way + ?4,
                        recovered = recovered + ?5, relapsed = relapsed + ?6, first_seen = min(first_seen, coalesce(?7, first_seen)),
                        last_seen = max(last_seen, coalesce(?8, last_seen))
WHERE fingerprint = ?1 RETURNING letters, failures, under_way, recovered, relapsed, state
