SELECT subject, at, note FROM redrive.escalation_ack WHERE subject = ANY ($1) ORDER BY subject
