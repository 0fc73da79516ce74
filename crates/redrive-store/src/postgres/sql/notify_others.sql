-- Tells other processes, if there are any: present are more workers than our own.
SELECT pg_notify('redrive_ready', $1) WHERE (SELECT count(*) FROM redrive.worker WHERE expires_at > redrive.now_ms()) > $2
