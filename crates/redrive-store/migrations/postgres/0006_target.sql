-- What a job enqueued from SQL goes to. The twin of sqlite/0006_target.sql.
--
-- A function with one more argument is another function, and beside the old one no call would say which it means. So the new
-- one takes the place of the old one, with the rights that were given to others.
ALTER FUNCTION redrive.redrive_enqueue RENAME TO redrive_enqueue_before;

-- Enqueues a job inside the caller's own transaction: it is there if and only if that commits. Answers the job's number;
-- for a unique key that unfinished work has already, the number of that.
CREATE FUNCTION redrive.redrive_enqueue(
    queue           text,
    kind            text,
    payload         jsonb DEFAULT '{}',
    delay           interval DEFAULT NULL,
    run_at          timestamptz DEFAULT NULL,
    priority        integer DEFAULT 0,
    unique_key      text DEFAULT NULL,
    caller_id       text DEFAULT NULL,
    policy          text DEFAULT NULL,
    timeout         interval DEFAULT NULL,
    deadline        timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL,
    source          text DEFAULT NULL,
    target          text DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    at          bigint := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    due         bigint;
    body        bytea := convert_to(coalesce(payload, 'null'::jsonb)::text, 'UTF8');
    lane_number bigint;
    queue_number bigint;
    source_number bigint;
    type_number bigint;
    job_number  bigint;
    existing    bigint;
    event_number bigint;
    store_row   record;
BEGIN
    IF queue IS NULL OR kind IS NULL THEN
        RAISE EXCEPTION 'a job needs a queue and a kind' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM redrive.must_be_name('queue', queue), redrive.must_be_name('kind', kind),
            redrive.must_be_name('unique key', unique_key), redrive.must_be_name('caller id', caller_id),
            redrive.must_be_name('policy', policy), redrive.must_be_name('idempotency key', idempotency_key),
            redrive.must_be_name('source', source), redrive.must_be_name('target', target);
    IF priority IS NULL OR priority NOT BETWEEN -100 AND 100 THEN
        RAISE EXCEPTION 'priority % is not between -100 and 100', priority USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(body) > 1048576 THEN
        RAISE EXCEPTION 'the payload has % bytes; 1048576 is the most', octet_length(body)
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    IF timeout < interval '1 millisecond' THEN
        RAISE EXCEPTION 'timeout % is shorter than 1 ms', timeout USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT isfinite(run_at) OR NOT isfinite(deadline) OR run_at < '1970-01-01 00:00:00+00' THEN
        RAISE EXCEPTION 'run_at and deadline must be points in time after 1970' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF delay IS NOT NULL AND run_at IS NOT NULL THEN
        RAISE EXCEPTION 'give delay or run_at, not both' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT s.store_id INTO STRICT store_row FROM redrive.store s;
    IF EXISTS (SELECT 1 FROM redrive.seal_key) THEN
        RAISE EXCEPTION 'this store is encrypted, and SQL has no key'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Enqueue through redrive, which has it.';
    END IF;
    due := coalesce(floor(extract(epoch FROM run_at) * 1000)::bigint,
                    at + ceil(extract(epoch FROM greatest(delay, interval '0')) * 1000)::bigint, at);

    SELECT l.id, l.queue_id INTO lane_number, queue_number FROM redrive.lane l JOIN redrive.queue q ON q.id = l.queue_id
    WHERE q.name = queue AND l.kind = kind;
    IF lane_number IS NULL THEN
        INSERT INTO redrive.queue AS q (name) VALUES (queue) ON CONFLICT (name) DO NOTHING;
        SELECT q.id INTO STRICT queue_number FROM redrive.queue q WHERE q.name = queue;
        INSERT INTO redrive.lane AS l (queue_id, kind) VALUES (queue_number, kind) ON CONFLICT ON CONSTRAINT lane_queue_id_kind_key DO NOTHING;
        SELECT l.id INTO STRICT lane_number FROM redrive.lane l WHERE l.queue_id = queue_number AND l.kind = kind;
    END IF;

    job_number := nextval('redrive.job_number');
    IF unique_key IS NOT NULL THEN
        LOOP
            INSERT INTO redrive.unique_job AS u (queue_id, key, job_id) VALUES (queue_number, unique_key, job_number)
            ON CONFLICT ON CONSTRAINT unique_job_pkey DO NOTHING;
            EXIT WHEN FOUND;
            SELECT u.job_id INTO existing FROM redrive.unique_job u WHERE u.queue_id = queue_number AND u.key = unique_key;
            IF existing IS NOT NULL THEN
                RETURN existing;
            END IF;
        END LOOP;
    END IF;

    SELECT n.id INTO source_number FROM redrive.name n WHERE n.text = coalesce(source, kind);
    IF source_number IS NULL THEN
        INSERT INTO redrive.name AS n (text) VALUES (coalesce(source, kind)) ON CONFLICT ON CONSTRAINT name_text_key DO NOTHING;
        SELECT n.id INTO STRICT source_number FROM redrive.name n WHERE n.text = coalesce(source, kind);
    END IF;
    SELECT n.id INTO type_number FROM redrive.name n WHERE n.text = 'job_enqueued';
    IF type_number IS NULL THEN
        INSERT INTO redrive.name AS n (text) VALUES ('job_enqueued') ON CONFLICT ON CONSTRAINT name_text_key DO NOTHING;
        SELECT n.id INTO STRICT type_number FROM redrive.name n WHERE n.text = 'job_enqueued';
    END IF;

    event_number := redrive.take_event_numbers(1);
    INSERT INTO redrive.job AS j (id, lane_id, payload, enqueued_at, run_at, rank, source_id, event, policy, caller_id,
                             idempotency_key, unique_key, timeout_ms, deadline_at, target)
    VALUES (job_number, lane_number, body, at, due, -priority, source_number, event_number, policy, caller_id, idempotency_key,
            unique_key, ceil(extract(epoch FROM timeout) * 1000)::bigint, floor(extract(epoch FROM deadline) * 1000)::bigint,
            target);
    INSERT INTO redrive.event AS e (seq, at, type_id, source_id, status, job_id, lane_id, caller_id)
    VALUES (event_number, at, type_number, source_number, 0, job_number, lane_number, caller_id);
    INSERT INTO redrive.ready AS r (lane_id, rank, run_at, job_id) VALUES (lane_number, -priority, due, job_number);
    INSERT INTO redrive.delta AS d (lane_id, ready, events) VALUES (lane_number, 1, 1);
    PERFORM pg_notify('redrive_ready', store_row.store_id::text);
    RETURN job_number;
END $$;

DO $do$
DECLARE
    given record;
    rights aclitem[];
BEGIN
    SELECT p.proacl INTO rights FROM pg_proc p WHERE p.oid = 'redrive.redrive_enqueue_before'::regproc;
    IF rights IS NOT NULL THEN
        REVOKE ALL ON FUNCTION redrive.redrive_enqueue FROM PUBLIC;
        FOR given IN SELECT a.grantee, a.is_grantable FROM aclexplode(rights) a LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION redrive.redrive_enqueue TO %s%s',
                           CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END,
                           CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' END);
        END LOOP;
    END IF;
    DROP FUNCTION redrive.redrive_enqueue_before;
END $do$;
