SELECT next_job, next_event, key_epoch, coalesce((SELECT until FROM moving WHERE state = 'draining'), 0), store_id FROM store
