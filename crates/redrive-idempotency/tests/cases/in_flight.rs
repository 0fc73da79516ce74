//! While the first request is running (R-I3).

use std::time::Duration;

use redrive_idempotency::rules::InFlight;
use redrive_store::KeyState;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I3: 409 with Retry-After, told apart from the other 409s by its type.
pub(crate) async fn a_second_request_is_told_to_come_again<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    let second = world.post("/v1/bookmarks").key("order-7").send().await;
    second.is_problem(409, "in-flight");
    let after: u64 = second.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&after));
    world.app.let_one_go_on();
    let first = first.await.unwrap();
    first.is_effect(1);
    world.post("/v1/bookmarks").key("order-7").send().await.replays(&first);
}

/// R-I3: a route may let the second wait for the first one's answer.
pub(crate) async fn a_second_request_waits_where_the_route_says_so<F: Front>(place: Place) {
    let waits = |rules: &mut redrive_idempotency::rules::Rules| {
        rules.in_flight = InFlight::Wait(Duration::from_secs(30));
    };
    let world = World::with::<F>(place, waits).await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    let second = world.post("/v1/bookmarks").key("order-7").go();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!second.is_finished());
    world.app.let_one_go_on();
    let first = first.await.unwrap();
    first.is_effect(1);
    second.await.unwrap().replays(&first);
}

/// R-I3: waiting is bounded.
pub(crate) async fn a_wait_that_is_too_long_ends_with_409<F: Front>(place: Place) {
    let waits = |rules: &mut redrive_idempotency::rules::Rules| {
        rules.in_flight = InFlight::Wait(Duration::from_millis(300));
    };
    let world = World::with::<F>(place, waits).await;
    let first = world.post("/v1/bookmarks").key("order-7").test("hold=1").go();
    world.app.somebody_is_in().await;
    world.post("/v1/bookmarks").key("order-7").send().await.is_problem(409, "in-flight");
    world.app.let_one_go_on();
    first.await.unwrap().is_effect(1);
}

fn raw(path: &str, key: &str, test: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {key}\r\nx-test: {test}\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    head.into_bytes()
}

/// R-I3: a client that goes away stops neither the handler nor the recording.
pub(crate) async fn a_client_that_is_gone_leaves_a_result<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let mut client = TcpStream::connect(world.address()).await.unwrap();
    client.write_all(&raw("/v1/bookmarks", "order-7", "hold=1")).await.unwrap();
    world.app.somebody_is_in().await;
    client.set_zero_linger().unwrap();
    drop(client);
    // Long enough for the front to see it.
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.app.let_one_go_on();
    let again = loop {
        let again = world.post("/v1/bookmarks").key("order-7").body("{}").send().await;
        if again.status != 409 {
            break again;
        }
        again.is_problem(409, "in-flight");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((again.status.as_u16(), again.is_replay(), world.app.effects()), (201, true, 1));
    assert!(again.text().contains("\"effect\":1,"));
}

/// R-I3: a client may go between its request and the taking of its key: then it is run to its end, or was never begun.
pub(crate) async fn a_client_that_goes_at_any_moment_leaves_no_unknown_outcome<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let clients: Vec<_> = (0..120_u64)
        .map(|number| {
            let address = world.address();
            tokio::spawn(async move {
                let mut client = TcpStream::connect(address).await.unwrap();
                client.write_all(&raw("/v1/bookmarks", &format!("key-{number}"), "")).await.unwrap();
                // From at once to well after the answer.
                let patience = tokio::time::sleep(Duration::from_micros(number * 150));
                let mut answer = [0; 64];
                tokio::select! { () = patience => {}, _ = client.read(&mut answer) => {} }
                client.set_zero_linger().unwrap();
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    // Until nothing changes any more: nothing is left in progress, and nobody was given up.
    let mut last = Vec::new();
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let records = world.records().await;
        if records == last && records.iter().all(|record| record.state != KeyState::InProgress) {
            break;
        }
        last = records;
    }
    let records = world.records().await;
    assert!(
        !records.is_empty() && records.iter().all(|record| record.state == KeyState::Completed),
        "{records:?}"
    );
    assert_eq!(world.app.effects(), u64::try_from(records.len()).unwrap());
}
