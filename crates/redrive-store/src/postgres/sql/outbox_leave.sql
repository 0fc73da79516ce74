DELETE FROM redrive.outbox_lane WHERE lane = $1 AND held_by = $2
