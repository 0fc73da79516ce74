SELECT 1 FROM redrive.operation o WHERE o.id = $1::text::uuid
