//! Idempotency keys that are completed inside the application's own transaction on PostgreSQL.
#![cfg(feature = "postgres")]
// Test code outside of the test functions themselves: what goes wrong is a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "given/mod.rs"]
mod given;

use std::time::Duration;

use given::{Hand, at};
use redrive_store::{
    Claimed, Finish, Housekeeping, Idempotency, KeyClaim, KeyHold, KeyRing, KeyState, Postgres,
    PostgresOptions, Refusal, StoredResponse, Trouble,
};
use redrive_testing::Shared;
use tokio_postgres::{Client, NoTls};

const KEEP: Duration = Duration::from_hours(24);

/// A store in a schema of its own, and a connection of the application's, with a table of its own.
async fn given(shared: &Shared, keys: Option<KeyRing>) -> (Postgres, String, Client) {
    let schema = shared.schema();
    let options = PostgresOptions {
        schema: Some(schema.clone()),
        caller_clock: true,
        keys,
        ..PostgresOptions::default()
    };
    let store = Postgres::open(shared.url(), options).await.unwrap();
    let (client, connection) = tokio_postgres::connect(shared.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE TABLE \"{schema}\".orders (id bigint)")).await.unwrap();
    (store, schema, client)
}

fn claim(key: &str) -> KeyClaim {
    KeyClaim {
        principal: "alice".to_owned(),
        key: key.to_owned(),
        endpoint: "POST /v1/orders".to_owned(),
        request_hash: "hash".to_owned(),
        hold_for: Duration::from_secs(30),
        keep_for: KEEP,
        rerun: true,
        job: None,
    }
}

fn answer() -> StoredResponse {
    let headers = vec![("content-type".to_owned(), b"text/plain".to_vec())];
    StoredResponse { status: 201, headers, body: Some(b"made".to_vec()) }
}

async fn taken(store: &Postgres, now: i64, key: &str) -> KeyHold {
    match store.claim_key(at(now), claim(key)).await.unwrap() {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("not taken: {other:?}"),
    }
}

async fn orders(client: &Client, schema: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM \"{schema}\".orders"), &[]).await.unwrap().get(0)
}

/// Makes an order and completes its key in one transaction, which is ended as asked, or undone when the key is lost.
async fn order(
    store: &Postgres,
    schema: &str,
    client: &mut Client,
    now: i64,
    hold: KeyHold,
    commits: bool,
) -> Finish {
    let transaction = client.transaction().await.unwrap();
    transaction.execute(&format!("INSERT INTO \"{schema}\".orders VALUES (7)"), &[]).await.unwrap();
    let finish = store.complete_key_in(&transaction, at(now), hold, &answer(), KEEP).await.unwrap();
    if commits && finish == Finish::Done {
        transaction.commit().await.unwrap();
    } else {
        transaction.rollback().await.unwrap();
    }
    finish
}

/// R-I4: what the request did and that it was answered are there together, or neither is; encrypted or not.
#[tokio::test]
async fn the_effect_and_its_answer_are_there_together() {
    let Some(shared) = redrive_testing::shared() else { return };
    let key = KeyRing::generate("k").unwrap();
    for keys in [None, Some(KeyRing::parse("k", &key).unwrap())] {
        let (store, schema, mut client) = given(shared, keys).await;
        let hold = taken(&store, 0, "k").await;
        assert_eq!(order(&store, &schema, &mut client, 1, hold, false).await, Finish::Done);
        assert_eq!(orders(&client, &schema).await, 0);
        assert!(matches!(store.claim_key(at(2), claim("k")).await.unwrap(), Claimed::InFlight { .. }));
        assert_eq!(order(&store, &schema, &mut client, 3, hold, true).await, Finish::Done);
        assert_eq!(orders(&client, &schema).await, 1);
        let replay = Claimed::Completed { response: answer(), completed_at: at(3), job: None };
        assert_eq!(store.claim_key(at(4), claim("k")).await.unwrap(), replay);
        let record = store.key(hold.record).await.unwrap().unwrap().0;
        assert_eq!((record.state, record.expires_at), (KeyState::Completed, Some(at(3).after(KEEP))));
        Hand(&store).clean().await;
        store.close().await.unwrap();
    }
}

/// R-I4: a holder that lost the key writes nothing, and one whose commit was not heard of does not do it a second time.
#[tokio::test]
async fn who_lost_the_key_writes_nothing() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, schema, mut client) = given(shared, None).await;
    let lost = taken(&store, 0, "k").await;
    let hold = taken(&store, 30_000, "k").await;
    assert_eq!(order(&store, &schema, &mut client, 30_001, lost, true).await, Finish::Lost);
    assert_eq!(store.key(hold.record).await.unwrap().unwrap().0.state, KeyState::InProgress);
    assert_eq!(order(&store, &schema, &mut client, 30_002, hold, true).await, Finish::Done);
    assert_eq!(order(&store, &schema, &mut client, 30_003, hold, true).await, Finish::Lost);
    assert_eq!(orders(&client, &schema).await, 1);
    let record = store.key(hold.record).await.unwrap().unwrap().0;
    assert_eq!(record.ended_at, Some(at(30_002)), "the first answer stands");
    store.reset_key(at(30_004), hold.record, KeyState::Completed, None).await.unwrap();
    assert_eq!(order(&store, &schema, &mut client, 30_005, hold, true).await, Finish::Lost);
    // A holder that was taken for silent, whose key nobody took, is heard all the same.
    let late = taken(&store, 0, "late").await;
    assert_eq!(store.sweep_keys(at(30_000), KEEP, 10).await.unwrap().lapsed, 1);
    assert_eq!(order(&store, &schema, &mut client, 30_001, late, true).await, Finish::Done);
    assert_eq!(orders(&client, &schema).await, 2);
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-I4: while the application's transaction is open its holder's heartbeat waits for nobody else's sake, and nobody takes the key
/// from it, however long ago it was heard of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_a_key_that_is_being_completed() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, schema, mut client) = given(shared, None).await;
    let hold = taken(&store, 0, "k").await;
    let transaction = client.transaction().await.unwrap();
    transaction.execute(&format!("INSERT INTO \"{schema}\".orders VALUES (7)"), &[]).await.unwrap();
    let finish = store.complete_key_in(&transaction, at(1), hold, &answer(), KEEP).await.unwrap();
    assert_eq!(finish, Finish::Done);
    let commit = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        transaction.commit().await.unwrap();
    };
    // Long after its lease, which the transaction has not told anybody it no longer needs.
    let (claimed, ()) = tokio::join!(store.claim_key(at(60_000), claim("k")), commit);
    let replay = Claimed::Completed { response: answer(), completed_at: at(1), job: None };
    assert_eq!(claimed.unwrap(), replay);
    assert_eq!(store.renew_key(at(60_001), hold, KEEP).await.unwrap(), Finish::Done);
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-I5: an answer that is too large is refused before anything is written.
#[tokio::test]
async fn too_large_an_answer_is_refused() {
    let Some(shared) = redrive_testing::shared() else { return };
    let (store, _, mut client) = given(shared, None).await;
    let hold = taken(&store, 0, "k").await;
    let headers = vec![("x".to_owned(), vec![b'x'; redrive_store::MAX_HEADER_BYTES])];
    let response = StoredResponse { headers, ..answer() };
    let transaction = client.transaction().await.unwrap();
    let refused = store.complete_key_in(&transaction, at(1), hold, &response, KEEP).await.unwrap_err();
    assert!(matches!(refused.trouble(), Trouble::Refused(Refusal::TooLarge { .. })), "{refused}");
    transaction.rollback().await.unwrap();
    assert_eq!(store.release_key(at(1), hold, None).await.unwrap(), Finish::Done);
    Hand(&store).clean().await;
    store.close().await.unwrap();
}
