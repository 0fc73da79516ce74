-- The same function where every search path finds it. Without the right to make it there, it is called by its full name.
DO $do$
BEGIN
    CREATE OR REPLACE FUNCTION public.redrive_enqueue(
        queue text, kind text, payload jsonb DEFAULT '{}', delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL,
        priority integer DEFAULT 0, unique_key text DEFAULT NULL, caller_id text DEFAULT NULL, policy text DEFAULT NULL,
        timeout interval DEFAULT NULL, deadline timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL,
        source text DEFAULT NULL
    ) RETURNS bigint LANGUAGE sql AS $fn$
        SELECT redrive.redrive_enqueue(queue, kind, payload, delay, run_at, priority, unique_key, caller_id, policy, timeout,
                                       deadline, idempotency_key, source)
    $fn$;
EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
    RAISE NOTICE 'redrive_enqueue is callable as redrive.redrive_enqueue only: %', SQLERRM;
END $do$
