SELECT g.fingerprint, g.cause, g.error_type, g.sample, g.letters, g.failures, g.under_way, g.recovered, g.relapsed,
       g.first_seen, g.last_seen, g.state, g.state_since, g.note
FROM redrive.letter_group g WHERE g.fingerprint = ANY ($1)
