-- For who enqueues inside another transaction, which may have begun long ago.
SELECT s.store_id, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, k.key_epoch
FROM redrive.store s, redrive.seal_epoch k
