SELECT id, lane, key, call, state, sends, created_at, not_before, sent_at, ended_at, last, last_status FROM outbox
