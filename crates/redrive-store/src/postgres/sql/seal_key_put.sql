-- The newest row seals. A key that comes back is the newest again.
INSERT INTO redrive.seal_key AS k (number, key_id, proof, since)
SELECT coalesce(max(o.number), 0) + 1, $1, $2, $3 FROM redrive.seal_key o
ON CONFLICT (key_id) DO UPDATE SET number = excluded.number, proof = excluded.proof, since = excluded.since
