//! What a server costs its database while there is nothing to do.

use std::time::Duration;

use redrive::engine::{Canary, RedriveRequest, Shutdown, Which};
use redrive_store::{Postgres, PostgresOptions};
use redrive_testing::shared;

use crate::runs::letters;
use crate::support::{World, run};

/// How many transactions have written something, by what each leaves behind until it is forgotten, minutes later.
fn written(schema: &str) -> u64 {
    let url = shared().unwrap().url();
    let words = format!("SELECT count(*) FROM {schema}.operation");
    let told =
        std::process::Command::new("psql").args([url, "-X", "-A", "-t", "-c", &words]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    told.trim().parse().unwrap_or_else(|_| panic!("no number: {told}"))
}

/// R-D4, reliability: where nothing expired the reaper writes nothing, and who only looks at a redrive that waits does not either.
#[test]
fn who_finds_nothing_to_do_writes_nothing() {
    let Some(shared) = shared() else { return };
    run(async {
        let schema = shared.schema();
        let options = PostgresOptions { create: true, schema: Some(schema.clone()), ..Default::default() };
        let store = std::sync::Arc::new(Postgres::open(shared.url(), options).await.unwrap());
        let world = World::of(store, tempfile::tempdir().unwrap(), |builder| builder);
        letters(&world, "a", 2).await;
        let canary = RedriveRequest { canary: Some(Canary::default()), ..RedriveRequest::new(Which::All) };
        let id = world.engine.start_redrive(canary).await.unwrap();
        let shutdown = Shutdown::new();
        let telling = async {
            crate::support::until("its first letter is back", async || {
                world.engine.redrive_run(id).await.unwrap().unwrap().moved == 1
            })
            .await;
            // From here on none of them has anything to do.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let before = written(&schema);
            tokio::time::sleep(Duration::from_secs(5)).await;
            let during = written(&schema) - before;
            assert!(during <= 10, "{during} transactions wrote something in five seconds");
            shutdown.signal();
        };
        let worker = || world.engine.worker().only_present().run(&shutdown);
        let (a, b, c, ()) = tokio::join!(worker(), worker(), worker(), telling);
        for left in [a, b, c] {
            left.unwrap();
        }
    });
}
