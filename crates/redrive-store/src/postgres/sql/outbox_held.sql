-- Nobody else takes the lane until the end of the transaction.
SELECT held_until FROM redrive.outbox_lane WHERE lane = $1 AND held_by = $2 FOR UPDATE
