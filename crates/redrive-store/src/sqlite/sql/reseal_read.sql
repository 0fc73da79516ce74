SELECT key_id, step, reached, cells FROM reseal
