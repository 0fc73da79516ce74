//! The outbox against real servers on loopback, on both stores (R-I7): in order, with one key, and counted as documented.
#![cfg(feature = "outbox")]
#![allow(clippy::unwrap_used)]

mod far_side;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use far_side::{Far, Place, by_key, created, hasty, problem};
use redrive::engine::{Engine, Shutdown};
use redrive::http_client;
use redrive_idempotency::IdempotencyLayer;
use redrive_idempotency::outbox::{Call, ItemId, LeftWhy, Outbox, OutboxError, SendResult};
use redrive_store::{ItemState, NextSend, OutboxItem};

fn outbox(engine: &Engine) -> Outbox {
    let client = http_client().no_proxy().build().unwrap();
    Outbox::new(engine).unwrap().client(client).policy(hasty()).hold_for(Duration::from_millis(800))
}

fn call(far: &Far, body: &str) -> Call {
    Call::post(far.url()).body(body)
}

async fn add(outbox: &Outbox, far: &Far, bodies: &[&str]) -> Vec<ItemId> {
    let mut ids = Vec::new();
    for body in bodies {
        ids.push(outbox.add(call(far, body)).await.unwrap().id);
    }
    ids
}

async fn item(outbox: &Outbox, id: ItemId) -> OutboxItem {
    outbox.item(id).await.unwrap().unwrap()
}

/// Where an item stands, and how many sends count.
async fn standing(outbox: &Outbox, id: ItemId) -> (ItemState, u32) {
    let item = item(outbox, id).await;
    (item.state, item.sends)
}

/// Offline, three are added; the network comes back; they go out in order, once each.
async fn back_online(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine);
    let far = Far::away(created);
    let ids = add(&outbox, &far, &["1", "2", "3"]).await;
    for _ in 0..4 {
        // More often than there are sends: what is not reached does not count.
        let flushed = outbox.flush().await.unwrap();
        assert_eq!((flushed.sent, flushed.failed, flushed.left.len()), (0, 0, 1));
        assert!(matches!(flushed.left[0].why, LeftWhy::NotReached { .. }), "{flushed:?}");
    }
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Pending, 0));
    assert!(item(&outbox, ids[0]).await.last.is_some(), "what the line said is kept");

    far.comes();
    let flushed = outbox.flush().await.unwrap();
    assert_eq!((flushed.sent, flushed.is_all_sent()), (3, true));
    assert_eq!(far.bodies(), ["1", "2", "3"]);
    assert_eq!((far.effects(), by_key(&far.came()).len()), (3, 3));
    assert_eq!(far.came()[0].job, ids[0].to_string());
    assert_eq!(standing(&outbox, ids[2]).await, (ItemState::Sent, 1));
    assert_eq!(item(&outbox, ids[2]).await.last_status, Some(201));
    assert!(outbox.flush().await.unwrap().is_nothing());
    let again = outbox.add(call(&far, "1")).await.unwrap();
    assert_eq!((again.id, again.existing, again.state), (ids[0], true, ItemState::Sent));
}

/// Three answers with 500 are enough; a person sends it again, with the same key.
async fn three_and_by_hand(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine);
    let far = Far::there(|_, times| {
        if times <= 3 { StatusCode::INTERNAL_SERVER_ERROR.into_response() } else { created("", 0) }
    });
    let ids = add(&outbox, &far, &["1", "2"]).await;
    let flushed = outbox.flush().await.unwrap();
    // The second one has its own three.
    assert_eq!((flushed.sent, flushed.failed), (0, 2));
    assert_eq!(far.bodies(), ["1", "1", "1", "2", "2", "2"], "one that waits holds back those behind it");
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Failed, 3));
    assert_eq!(item(&outbox, ids[0]).await.last_status, Some(500));
    let attempts: Vec<_> = far.came().into_iter().map(|came| came.attempt).collect();
    assert_eq!(attempts, ["1", "2", "3", "1", "2", "3"]);

    assert_eq!(outbox.retry(&[ids[0]]).await.unwrap(), [ids[0]]);
    assert_eq!(outbox.flush().await.unwrap().sent, 1);
    assert_eq!(outbox.retry(&[]).await.unwrap(), [ids[1]]);
    assert_eq!(outbox.flush().await.unwrap().sent, 1);
    assert_eq!((far.effects(), by_key(&far.came()).len()), (2, 2), "one key each, whoever sent it");
}

/// What cannot succeed fails at once, and does not hold back what is behind it.
async fn permanent(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine);
    let far = Far::there(|body, _| match body {
        "bad" => (StatusCode::UNPROCESSABLE_ENTITY, "no such place").into_response(),
        _ => created("", 0),
    });
    let ids = add(&outbox, &far, &["1", "bad", "2"]).await;
    let flushed = outbox.flush().await.unwrap();
    assert_eq!((flushed.sent, flushed.failed), (2, 1));
    assert_eq!(far.bodies(), ["1", "bad", "2"]);
    assert_eq!(standing(&outbox, ids[1]).await, (ItemState::Failed, 1));
    assert_eq!(item(&outbox, ids[1]).await.last.as_deref(), Some("HTTP 422: no such place"));
    assert!(outbox.discard(ids[1]).await.unwrap());
    assert!(outbox.item(ids[1]).await.unwrap().is_none());
    assert!(!outbox.discard(ids[0]).await.unwrap(), "what was sent stays");
}

/// The answers about a key, told apart by their type: one is asked again and does not count, one says that it is done, the others fail.
async fn answers_about_keys(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine).max_sends(1);
    let far = Far::there(|body, times| match body {
        "in-flight" if times <= 2 => problem("in-flight", 409),
        "in-flight" => created("", 0),
        "mismatch" => problem("mismatch", 409),
        "response-not-kept" => problem("response-not-kept", 409),
        _ => problem("unknown-outcome", 409),
    });
    let ids = add(&outbox, &far, &["in-flight", "mismatch", "unknown-outcome", "response-not-kept"]).await;
    let began = Instant::now();
    let flushed = outbox.flush().await.unwrap();
    assert_eq!((flushed.sent, flushed.failed), (2, 2));
    assert!(began.elapsed() >= Duration::from_secs(2), "Retry-After was not waited for");
    let asked = ["in-flight", "in-flight", "in-flight", "mismatch", "unknown-outcome", "response-not-kept"];
    assert_eq!(far.bodies(), asked);
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Sent, 1));
    // An earlier send did it: there is nothing to mend.
    assert_eq!(standing(&outbox, ids[3]).await, (ItemState::Sent, 1));
    for (id, says) in [(ids[1], "the key is mismatch"), (ids[2], "the key is unknown-outcome")] {
        let item = item(&outbox, id).await;
        assert_eq!((item.state, item.sends, item.last_status), (ItemState::Failed, 1, Some(409)));
        assert_eq!(item.last.unwrap(), format!("HTTP 409: {says}"));
    }
}

/// Whoever died between the send and its end has used one up; the next one sends with the same key.
async fn died_while_sending(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine);
    let far = Far::there(created);
    let ids = add(&outbox, &far, &["1", "2"]).await;
    let die = |holder: i64| {
        let (engine, lane) = (engine.clone(), far.lane());
        async move {
            let store = engine.store();
            assert!(
                store.hold_lane(engine.now(), lane.clone(), holder, Duration::from_millis(50)).await.unwrap()
            );
            let begun = store.begin_send(engine.now(), lane, holder).await.unwrap();
            assert!(matches!(begun, NextSend::Item(_)), "{begun:?}");
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    };
    die(1).await;
    die(2).await;
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Pending, 2));
    die(3).await;
    let flushed = outbox.flush().await.unwrap();
    assert_eq!((flushed.sent, flushed.failed), (1, 1));
    assert_eq!(far.bodies(), ["2"], "three sends were begun: nobody makes a fourth");
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Failed, 3));
    outbox.retry(&ids[..1]).await.unwrap();
    die(4).await;
    assert_eq!(outbox.flush().await.unwrap().sent, 1);
    assert_eq!((far.bodies(), far.came()[1].attempt.as_str()), (vec!["2".to_owned(), "1".to_owned()], "2"));
}

/// However many flush at once and however long a send takes: one at a time from a lane, each once, in order.
async fn many_flush(place: Place) {
    let engine = place.engine().await;
    // Longer than a lane is held at a time: the holder must be heard of in between.
    let far = Far::slow(Duration::from_millis(300), created);
    far.comes();
    let outbox = outbox(&engine).hold_for(Duration::from_millis(200));
    let bodies: Vec<String> = (0..6).map(|n| n.to_string()).collect();
    add(&outbox, &far, &bodies.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut flushing = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let outbox = outbox.clone();
        flushing.spawn(async move { outbox.flush().await.unwrap().sent });
    }
    let sent: u64 = flushing.join_all().await.into_iter().sum();
    assert_eq!((sent, far.most_at_once()), (6, 1));
    assert_eq!(far.bodies(), bodies);
}

/// A save is one item until it was sent and something else is saved under its name.
async fn saves(place: Place) {
    let engine = place.engine().await;
    let outbox = outbox(&engine);
    let far = Far::there(created);
    let first = outbox.save("draft", call(&far, "a")).await.unwrap();
    assert_eq!(outbox.save("draft", call(&far, "a")).await.unwrap().id, first.id);
    let refused = outbox.save("draft", call(&far, "b")).await;
    assert!(matches!(refused, Err(OutboxError::KeyTaken { item, .. }) if item == first.id), "{refused:?}");
    outbox.flush().await.unwrap();
    let again = outbox.save("draft", call(&far, "a")).await.unwrap();
    assert_eq!((again.id, again.state), (first.id, ItemState::Sent), "asked again after the answer was lost");
    let second = outbox.save("draft", call(&far, "b")).await.unwrap();
    assert!(!second.existing && second.key != first.key);
    outbox.flush().await.unwrap();
    assert_eq!((far.bodies(), far.effects()), (vec!["a".to_owned(), "b".to_owned()], 2));
}

/// Two who find a save over and save the same change go on with one key; what another saved meanwhile is not forgotten.
async fn changed_at_once(place: Place) {
    let (here, there) = (place.engine().await, place.engine().await);
    let outboxes = [outbox(&here), outbox(&there)];
    let far = Far::there(created);
    for round in 0..8 {
        let (name, body) = (format!("draft {round}"), format!("changed {round}"));
        let first = outboxes[0].save(&name, call(&far, &format!("first {round}"))).await.unwrap();
        assert_eq!(outboxes[0].flush().await.unwrap().sent, 1);
        let mut saving = tokio::task::JoinSet::new();
        for number in 0..16 {
            let (outbox, name, call) = (outboxes[number % 2].clone(), name.clone(), call(&far, &body));
            saving.spawn(async move { outbox.save(&name, call).await.unwrap() });
        }
        let saved = saving.join_all().await;
        assert!(saved.iter().all(|other| other.id == saved[0].id && other.key == saved[0].key), "{saved:?}");
        assert_ne!(saved[0].key, first.key);
        assert_eq!(outboxes[1].flush().await.unwrap().sent, 1);
    }
    assert_eq!(far.effects(), 16);
}

/// A far side that is never done with an earlier send is waited for as long as a flush does in sum, asked less and less often, and left.
async fn never_done(place: Place) {
    let engine = place.engine().await;
    let far = Far::there(|_, _| problem("in-flight", 409));
    let outbox = outbox(&engine).max_sends(1).patience(Duration::from_secs(4));
    let ids = add(&outbox, &far, &["1", "2"]).await;
    let began = Instant::now();
    let flushed = tokio::time::timeout(Duration::from_secs(20), outbox.flush()).await.unwrap().unwrap();
    let took = began.elapsed();
    assert!((Duration::from_millis(2_500)..Duration::from_secs(9)).contains(&took), "{took:?}");
    assert!(matches!(flushed.left[0].why, LeftWhy::Underway { .. }), "{flushed:?}");
    // Pauses of one second and of two; what is left of four is less than the far side wants.
    assert!((2..=3).contains(&far.bodies().len()), "{:?}", far.bodies());
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Pending, 0), "it uses up no sends");
    let before = far.bodies().len();
    let impatient = outbox.clone().patience(Duration::ZERO).flush().await.unwrap();
    assert!(matches!(impatient.left[0].why, LeftWhy::NotBefore { .. }), "{impatient:?}");
    assert_eq!(far.bodies().len(), before, "not before its time");
}

/// Watching sends what comes, and what was not reached when the far side is back; asked to end, it ends.
async fn watching(place: Place) {
    let engine = place.engine().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let outbox = outbox(&engine).observe(move |report| seen.lock().unwrap().push(report.result));
    let far = Far::away(created);
    let shutdown = Shutdown::new();
    let running = tokio::spawn({
        let (outbox, shutdown) = (outbox.clone(), shutdown.clone());
        async move { outbox.run(&shutdown).await.unwrap() }
    });
    add(&outbox, &far, &["1", "2"]).await;
    let until = |what: &'static str, is: Box<dyn Fn() -> bool + Send>| async move {
        let began = Instant::now();
        while !is() {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let results = Arc::clone(&told);
    until("it was not tried", Box::new(move || results.lock().unwrap().contains(&SendResult::NotReached)))
        .await;
    far.comes();
    let results = Arc::clone(&told);
    let sent = move || results.lock().unwrap().iter().filter(|result| **result == SendResult::Sent).count();
    let two = sent.clone();
    until("it was not sent", Box::new(move || two() == 2)).await;
    add(&outbox, &far, &["3"]).await;
    until("what came was not sent", Box::new(move || sent() == 3)).await;
    shutdown.signal();
    let flushed = running.await.unwrap();
    assert_eq!((flushed.sent, flushed.failed, flushed.left.len()), (3, 0, 0));
    assert_eq!(far.bodies(), ["1", "2", "3"]);
}

/// R-I7: what has to wait longer than a flush does is left, with its time, and holds back what is behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_is_left_for_the_next_flush() {
    let place = Place::sqlite();
    let engine = place.engine().await;
    let far = Far::there(|_, _| {
        (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "600")], "resting").into_response()
    });
    let outbox = outbox(&engine);
    let ids = add(&outbox, &far, &["1", "2"]).await;
    let flushed = outbox.flush().await.unwrap();
    let LeftWhy::NotBefore { at } = flushed.left[0].why else { panic!("{flushed:?}") };
    let wait = at.since(engine.now());
    assert!((590..=600).contains(&wait.as_secs()), "{wait:?}");
    assert_eq!((far.bodies().len(), standing(&outbox, ids[0]).await), (1, (ItemState::Pending, 1)));
    assert_eq!(outbox.flush().await.unwrap().left.len(), 1);
    assert_eq!(far.bodies().len(), 1, "it is not sent before its time");
}

/// R-I7: a lane that does not answer holds back nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn lanes_do_not_wait_for_each_other() {
    let place = Place::sqlite();
    let engine = place.engine().await;
    let (away, there) = (Far::away(created), Far::there(created));
    let outbox = outbox(&engine);
    add(&outbox, &away, &["1"]).await;
    add(&outbox, &there, &["2"]).await;
    outbox.add(call(&there, "3").lane("mine")).await.unwrap();
    let flushed = outbox.clone().only_lane("mine").flush().await.unwrap();
    assert_eq!((flushed.sent, there.bodies()), (1, vec!["3".to_owned()]));
    let flushed = outbox.flush().await.unwrap();
    assert_eq!((flushed.sent, flushed.left[0].lane.clone()), (1, away.lane()));
}

/// R-I7: asked to end, a flush finishes its send and leaves the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_is_asked_to_end_finishes_its_send() {
    let place = Place::sqlite();
    let engine = place.engine().await;
    let far = Far::slow(Duration::from_millis(300), created);
    far.comes();
    let outbox = outbox(&engine);
    let ids = add(&outbox, &far, &["1", "2"]).await;
    let shutdown = Shutdown::new();
    let flushing = tokio::spawn({
        let (outbox, shutdown) = (outbox.clone(), shutdown.clone());
        async move { outbox.flush_until(&shutdown).await.unwrap() }
    });
    while far.bodies().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.signal();
    let flushed = flushing.await.unwrap();
    assert_eq!((flushed.sent, &flushed.left[0].why), (1, &LeftWhy::Stopped));
    assert_eq!(standing(&outbox, ids[0]).await, (ItemState::Sent, 1));
    assert_eq!(standing(&outbox, ids[1]).await, (ItemState::Pending, 0));
}

/// R-I7, R-D7: a call's secrets are sent as they are, and stand in nothing that is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told() {
    let place = Place::sqlite();
    let engine = place.engine().await;
    let far = Far::there(|_, _| (StatusCode::BAD_REQUEST, "no such token: hunter2-hunter2").into_response());
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    let outbox = outbox(&engine).observe(move |report| seen.lock().unwrap().push(format!("{report:?}")));
    let url = format!("http://ada:hunter2-hunter2@{}/a?token=hunter2-hunter2", far.address);
    let call = Call::post(url).header("Authorization", "Bearer hunter2-hunter2").body("1");
    let queued = outbox.add(call).await.unwrap();
    assert_eq!(outbox.flush().await.unwrap().failed, 1);
    let last = item(&outbox, queued.id).await.last.unwrap();
    let told = format!("{:?} {queued:?} {last}", told.lock().unwrap());
    assert!(told.contains("HTTP 400") && !told.contains("hunter2"), "{told}");
}

/// R-I7, R-I8: two devices save the same at the same time, through redrive's own layer: it is done once, the one that comes second waits
/// for the first one's answer, and both know that it is done.
#[tokio::test(flavor = "multi_thread")]
async fn two_outboxes_and_the_layer_do_it_once() {
    let (service, laptop, phone) = (Place::sqlite(), Place::sqlite(), Place::sqlite());
    let done = Arc::new(Mutex::new(0));
    let count = Arc::clone(&done);
    let save = async move || {
        *count.lock().unwrap() += 1;
        tokio::time::sleep(Duration::from_millis(700)).await;
        StatusCode::CREATED
    };
    let app = axum::Router::new()
        .route("/v1/bookmarks", axum::routing::post(save))
        .layer(IdempotencyLayer::new(&service.engine().await));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/bookmarks", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });

    let told = Arc::new(Mutex::new(Vec::new()));
    let mut flushing = tokio::task::JoinSet::new();
    for place in [&laptop, &phone] {
        let seen = Arc::clone(&told);
        let outbox =
            outbox(&place.engine().await).observe(move |report| seen.lock().unwrap().push(report.result));
        outbox.add(Call::post(&url).json(&serde_json::json!({"url": "https://example.com/"}))).await.unwrap();
        flushing.spawn(async move { outbox.flush().await.unwrap().sent });
    }
    assert_eq!(flushing.join_all().await, [1, 1]);
    assert_eq!(*done.lock().unwrap(), 1, "the same wish is done once");
    let told = told.lock().unwrap();
    assert!(told.iter().any(|result| matches!(result, SendResult::Underway { .. })), "{told:?}");
    serving.abort();
}

macro_rules! on_both_stores {
    ($($(#[doc = $doc:literal])+ $name:ident = $scenario:path;)+) => {
        mod sqlite {
            $($(#[doc = $doc])+
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                $scenario(super::Place::sqlite()).await;
            })+
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            $($(#[doc = $doc])+
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(place) = super::Place::postgres() {
                    $scenario(place).await;
                }
            })+
        }
    };
}

on_both_stores! {
    /// R-I7: an offline queue on disk that sends when the network is back, in order, once each.
    what_waits_is_sent_in_order_when_the_network_is_back = super::back_online;
    /// R-I7: three sends, then failed, then retried by hand.
    three_sends_then_failed_then_by_hand = super::three_and_by_hand;
    /// R-I7: a permanent failure does not hold back what is behind it.
    a_permanent_failure_holds_back_nobody = super::permanent;
    /// R-I7, R-I3: what redrive's own layer says of a key is understood.
    answers_about_the_key_are_understood = super::answers_about_keys;
    /// R-I7: a send that was begun and never ended counts, and is made again with the same key.
    a_send_that_never_ended_counts = super::died_while_sending;
    /// R-I7: two flushes never send one item at the same time.
    one_at_a_time_from_a_lane = super::many_flush;
    /// R-I7: the same logical save is one item.
    a_save_is_one_item = super::saves;
    /// R-I7: those who save a change at the same moment save it once.
    a_changed_save_has_one_key = super::changed_at_once;
    /// R-I7: a flush ends, whatever the far side says.
    a_flush_ends_while_the_far_side_is_at_it = super::never_done;
    /// R-I7: items are sent as they come and when the network is back.
    watching_sends_what_comes = super::watching;
}
