INSERT INTO redrive.lane (queue_id, kind) SELECT q.id, $2 FROM redrive.queue q WHERE q.name = $1
ON CONFLICT (queue_id, kind) DO NOTHING
