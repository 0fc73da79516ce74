SELECT o.id, o.lane, o.key, o.call, o.state, o.sends, o.created_at, o.not_before, o.sent_at, o.ended_at, o.last, o.last_status
FROM redrive.outbox o WHERE o.id = $1
