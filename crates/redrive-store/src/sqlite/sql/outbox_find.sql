SELECT id, state, call_hash FROM outbox WHERE lane = ?1 AND key = ?2
