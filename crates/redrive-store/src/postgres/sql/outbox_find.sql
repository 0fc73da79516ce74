SELECT id, state, call_hash FROM redrive.outbox WHERE lane = $1 AND key = $2
