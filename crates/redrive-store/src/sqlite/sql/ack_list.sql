SELECT a.subject, a.at, a.note FROM json_each(?1) x CROSS JOIN escalation_ack a ON a.subject = x.value ORDER BY a.subject
