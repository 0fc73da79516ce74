SELECT key_id, proof FROM redrive.seal_key ORDER BY number
