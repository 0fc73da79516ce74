SELECT pg_notify('redrive_ready', $1)
