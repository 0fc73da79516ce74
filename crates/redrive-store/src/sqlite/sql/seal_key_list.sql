SELECT key_id, proof FROM seal_key ORDER BY number
