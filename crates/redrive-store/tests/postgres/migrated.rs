//! The schema is made, by several at once, by one that is killed in the middle, and beside binaries that are older or newer
//! (reliability rows 36 and 42).

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive_store::{Housekeeping, JobId, Jobs, NewTask, Postgres, PostgresOptions, Tasks, Trouble};
use redrive_testing::{Fault, Moment, Side, Wire, shared};

use crate::given::{Hand, at, job, success};
use crate::ground::{bounded, open, psql, try_open};

const FIRST: &str = include_str!("../../migrations/postgres/0001_jobs.sql");
const URL: &str = "REDRIVE_TEST_URL";
const SCHEMA: &str = "REDRIVE_TEST_SCHEMA";

/// What every store can do.
async fn works(store: &Postgres) {
    let hand = Hand(store);
    let worker = hand.worker().await;
    let id = hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, success()).await;
    assert_eq!(hand.types(id).await, ["job_enqueued", "attempt_started", "attempt_succeeded"]);
    hand.clean().await;
}

/// Not a test of its own: opens a store, for the one that kills it. Without a database there is nothing to do.
#[test]
fn child() {
    let (Ok(url), Ok(schema)) = (std::env::var(URL), std::env::var(SCHEMA)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { open(&url, &schema).await.close().await.unwrap() });
}

/// Row 42: killed with SIGKILL at any moment of making the schema; the next one makes it, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_it_makes_the_schema_it_leaves_all_or_nothing() {
    let Some(shared) = shared() else { return };
    let mut made = 0;
    for after in (0..60).step_by(5) {
        let schema = shared.schema();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "migrated::child", "--nocapture", "--test-threads=1"]);
        command.env(URL, shared.url()).env(SCHEMA, &schema).process_group(0);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(after)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let tables = format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'");
        let tables: u32 = psql(shared.url(), &tables).parse().unwrap();
        assert!(tables == 0 || tables > 10, "killed after {after} ms, it left {tables} tables");
        made += u32::from(tables > 0);
        let store = bounded("opening", open(shared.url(), &schema)).await;
        works(&store).await;
        store.close().await.unwrap();
    }
    println!("killed 12 times while it made the schema, {made} times too late");
}

/// Rows 36 and 42: the connection is cut at any message of making the schema; it is made all the same, or the next one makes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_while_it_makes_the_schema_it_leaves_all_or_nothing() {
    let Some(shared) = shared() else { return };
    let wire = Wire::before(shared.url()).await;
    for (side, fault) in
        [(Side::Client, Fault::CutBefore), (Side::Client, Fault::CutAfter), (Side::Server, Fault::CutBefore)]
    {
        for message in (0..).step_by(29) {
            let schema = shared.schema();
            wire.lay(Moment::Message(side, message), fault);
            let opened = bounded("opening", try_open(wire.url(), &schema)).await;
            let store = match opened {
                Ok(store) => store,
                Err(error) => {
                    assert!(error.may_pass(), "{error}");
                    open(shared.url(), &schema).await
                }
            };
            works(&store).await;
            store.close().await.unwrap();
            if !wire.has_struck() {
                break;
            }
        }
    }
}

/// Row 42: whoever comes first makes it, and nobody else minds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_make_the_same_store_at_once() {
    let Some(shared) = shared() else { return };
    for _ in 0..5 {
        let schema = shared.schema();
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let schema = schema.clone();
            opening.spawn(async move { open(shared.url(), &schema).await });
        }
        let stores = bounded("opening", opening.join_all()).await;
        let ids: BTreeSet<_> = stores.iter().map(Postgres::store_id).collect();
        assert_eq!(ids.len(), 1, "two stores were made");
        for store in &stores {
            works(store).await;
            store.close().await.unwrap();
        }
    }
}

/// Row 42, R-T1: a store of the schema before tasks goes on with what it has, and tasks can be started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_second_schema_comes_through() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let before = open(shared.url(), &schema).await;
    works(&before).await;
    before.close().await.unwrap();
    psql(
        shared.url(),
        &format!(
            "DROP TABLE {schema}.task, {schema}.task_plan, {schema}.subtask, {schema}.escalation_ack; \
             DROP TABLE {schema}.idempotency_keys, {schema}.outbox, {schema}.outbox_lane, {schema}.saved_key, {schema}.notice; \
             ALTER TABLE {schema}.job DROP COLUMN target; \
             DELETE FROM {schema}.migration WHERE number >= 3"
        ),
    );
    let after = open(shared.url(), &schema).await;
    works(&after).await;
    let task = NewTask {
        name: "first".to_owned(),
        place: None,
        plan: serde_json::json!(1),
        subtasks: 1,
        progress: serde_json::json!(0),
    };
    let task = after.start_task(at(0), task).await.unwrap();
    assert_eq!(after.task(task).await.unwrap().expect("it was started").counts, [1, 0, 0, 0, 0, 0]);
    let applied = format!("SELECT max(number) FROM {schema}.migration");
    assert_eq!(psql(shared.url(), &applied), Postgres::schema().to_string());
    after.close().await.unwrap();
}

/// Row 42, R-D8, R-P15: in a store of the schema before it `redrive_enqueue` becomes the one that takes a target. Calls as before mean
/// it, too, and whoever was allowed the old one is allowed the new one, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_enqueues_from_sql_learns_of_targets() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    open(shared.url(), &schema).await.close().await.unwrap();
    let (_, function) = FIRST.split_once("-- Enqueues a job inside the caller's own transaction").unwrap();
    let function = format!("-- Enqueues {function}").replace("redrive.", &format!("\"{schema}\"."));
    let before = format!(
        "DROP FUNCTION {schema}.redrive_enqueue; DELETE FROM {schema}.migration WHERE number >= 6; {function} \
         REVOKE ALL ON FUNCTION {schema}.redrive_enqueue FROM PUBLIC; \
         GRANT EXECUTE ON FUNCTION {schema}.redrive_enqueue TO pg_monitor WITH GRANT OPTION"
    );
    psql(shared.url(), &before);
    let named = "SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p";
    let named =
        format!("{named} WHERE p.proname ~ '^redrive_enqueue' AND p.pronamespace = '{schema}'::regnamespace");
    let old = psql(shared.url(), &named);

    let store = open(shared.url(), &schema).await;
    works(&store).await;
    let new = psql(shared.url(), &named);
    assert_eq!(new, old.replace(')', ",text)"), "one takes the place of the other");
    let rights =
        "SELECT string_agg(grantee::regrole || ' ' || is_grantable, ',' ORDER BY grantee::regrole::text)";
    let rights = format!(
        "{rights} FROM pg_proc p, aclexplode(p.proacl) WHERE p.oid = '{schema}.redrive_enqueue'::regproc AND grantee <> p.proowner"
    );
    assert_eq!(psql(shared.url(), &rights), "pg_monitor true");

    let call = |rest: &str| format!("SELECT {schema}.redrive_enqueue('q', 'a', '{{}}'{rest})");
    let job = |sql: &str| JobId(psql(shared.url(), sql).parse().unwrap());
    let target = async |id| store.job(id).await.unwrap().unwrap().job.unwrap().target;
    assert_eq!(target(job(&call(", target => 'tenant-7'"))).await.as_deref(), Some("tenant-7"));
    assert_eq!(target(job(&call(""))).await, None);
    let refused = std::panic::catch_unwind(|| psql(shared.url(), &call(", target => ''")));
    assert!(refused.is_err(), "a name that is none was taken");
    store.close().await.unwrap();
}

/// Row 42: a schema that is newer, but says that this binary may work beside it, is worked with: what was added is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_newer_schema_that_allows_it_this_one_works_on() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let before = open(shared.url(), &schema).await;
    works(&before).await;
    let newest: i64 =
        psql(shared.url(), &format!("SELECT max(number) FROM {schema}.migration")).parse().unwrap();
    // What a later binary might add, table by table, under the one that runs.
    psql(
        shared.url(),
        &format!(
            "ALTER TABLE {schema}.job ADD COLUMN later text, ADD COLUMN soon bigint NOT NULL DEFAULT 7; \
             ALTER TABLE {schema}.event ADD COLUMN later text; ALTER TABLE {schema}.lease ADD COLUMN later bigint; \
             ALTER TABLE {schema}.dead_letter ADD COLUMN later jsonb; ALTER TABLE {schema}.worker ADD COLUMN later text; \
             ALTER TABLE {schema}.progress ADD COLUMN later text; ALTER TABLE {schema}.ready ADD COLUMN later text; \
             CREATE TABLE {schema}.later (id bigint PRIMARY KEY); \
             INSERT INTO {schema}.migration (number, name, oldest) VALUES ({}, 'later', {newest})",
            newest + 1
        ),
    );
    works(&before).await;
    let after = open(shared.url(), &schema).await;
    works(&after).await;
    for store in [before, after] {
        store.close().await.unwrap();
    }
}

/// Row 42: a schema that is too new is refused, with both numbers and without a secret; nothing is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_too_new_is_refused() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    open(shared.url(), &schema).await.close().await.unwrap();
    psql(
        shared.url(),
        &format!("INSERT INTO {schema}.migration (number, name, oldest) VALUES (98, 'far', 97)"),
    );
    let error = bounded("opening", try_open(shared.url(), &schema)).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::NewerSchema { found: 98, .. }), "{error}");
    assert!(!error.may_pass(), "{error}");
    let password = shared.url().split(['@', ':']).nth(2).unwrap();
    assert!(!error.to_string().contains(password), "{error}");
}

/// Rows 11 and 42: another program's schema is left alone, and where there is none, none is made unless it is to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_somebody_elses_or_not_there_is_left_so() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let options =
        || PostgresOptions { create: false, schema: Some(schema.clone()), ..PostgresOptions::default() };
    let error = Postgres::open(shared.url(), options()).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Missing(_)), "{error}");
    psql(shared.url(), &format!("CREATE SCHEMA {schema} CREATE TABLE theirs (n int)"));
    let error = try_open(shared.url(), &schema).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Foreign(_)), "{error}");
    let tables = format!("SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = '{schema}'");
    assert_eq!(psql(shared.url(), &tables), "theirs");
}
