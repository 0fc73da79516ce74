DELETE FROM dead_letter WHERE job_id = ?1 RETURNING lane_id, cause, event, fence, redrives, fingerprint
