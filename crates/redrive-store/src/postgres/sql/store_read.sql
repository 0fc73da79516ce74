SELECT store_id FROM redrive.store
