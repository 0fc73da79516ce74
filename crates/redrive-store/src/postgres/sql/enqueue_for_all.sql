-- The same function where every search path finds it. Without the right to make it there, it is called by its full name. One with
-- fewer arguments, of a schema before this, makes way for it, and what others were allowed with it they are allowed again.
DO $do$
DECLARE
    before oid;
    rights aclitem[];
    given record;
BEGIN
    SELECT p.oid, p.proacl INTO before, rights FROM pg_proc p
    WHERE p.pronamespace = 'public'::regnamespace AND p.proname = 'redrive_enqueue' AND p.pronargs < 14;
    IF before IS NOT NULL THEN
        EXECUTE format('DROP FUNCTION %s', before::regprocedure);
    END IF;
    CREATE OR REPLACE FUNCTION public.redrive_enqueue(
        queue text, kind text, payload jsonb DEFAULT '{}', delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL,
        priority integer DEFAULT 0, unique_key text DEFAULT NULL, caller_id text DEFAULT NULL, policy text DEFAULT NULL,
        timeout interval DEFAULT NULL, deadline timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL,
        source text DEFAULT NULL, target text DEFAULT NULL
    ) RETURNS bigint LANGUAGE sql AS $fn$
        SELECT redrive.redrive_enqueue(queue, kind, payload, delay, run_at, priority, unique_key, caller_id, policy, timeout,
                                       deadline, idempotency_key, source, target)
    $fn$;
    IF rights IS NOT NULL THEN
        REVOKE ALL ON FUNCTION public.redrive_enqueue FROM PUBLIC;
        FOR given IN SELECT a.grantee, a.is_grantable FROM aclexplode(rights) a LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION public.redrive_enqueue TO %s%s',
                           CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END,
                           CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' END);
        END LOOP;
    END IF;
EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
    RAISE NOTICE 'redrive_enqueue is callable as redrive.redrive_enqueue only: %', SQLERRM;
END $do$
