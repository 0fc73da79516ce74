UPDATE redrive.escalation_ack SET note = $2 WHERE id = $1
