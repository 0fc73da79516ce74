//! What is too large to be read or kept (R-I3).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::front::Front;
use crate::world::{Place, World};

/// R-I3: the caller gets all of a large answer; whoever asks again learns that it was done, and is not run.
pub(crate) async fn an_answer_that_is_too_large_reaches_its_caller_and_is_not_kept<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.max_response = 1_000).await;
    let ask =
        |bytes: u32| world.post("/v1/export").key(format!("of-{bytes}")).test(&format!("large={bytes}"));
    for bytes in [1_001, 3_000_000] {
        let first = ask(bytes).send().await;
        assert_eq!((first.status.as_u16(), first.body.len()), (201, usize::try_from(bytes).unwrap()));
        let again = ask(bytes).send().await;
        again.is_problem(409, "response-not-kept");
        assert!(again.text().contains("201"), "{}", again.text());
    }
    let first = ask(1_000).send().await;
    ask(1_000).send().await.replays(&first);
    assert_eq!(world.app.effects(), 3);
}

/// R-I3: so with a stream that may have no end.
pub(crate) async fn a_stream_without_an_end_reaches_its_caller_and_is_not_kept<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let first = world.post("/v1/watch").key("order-7").test("events=1").send().await;
    assert_eq!(first.text(), "data: one\n\ndata: two\n\n");
    let again = world.post("/v1/watch").key("order-7").test("events=1").send().await;
    again.is_problem(409, "response-not-kept");
    assert_eq!(world.app.effects(), 1);
}

/// R-I1: a request that is too large to be compared is refused, whether it says its length or not.
pub(crate) async fn a_request_that_is_too_large_is_refused_without_a_trace<F: Front>(place: Place) {
    let world = World::with::<F>(place, |rules| rules.max_request = 1_000).await;
    let told = world.post("/v1/bookmarks").key("order-7").body("x".repeat(1_001)).send().await;
    told.is_problem(413, "request-too-large");

    let mut client = TcpStream::connect(world.address()).await.unwrap();
    let head =
        "POST /v1/bookmarks HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1_001)).as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!((world.app.effects(), world.records().await.len()), (0, 0));

    // Without a key it is not ours to refuse, and a thousand bytes are just enough.
    world.post("/v1/bookmarks").body("x".repeat(1_001)).send().await.is_effect(1);
    world.post("/v1/bookmarks").key("order-7").body("x".repeat(1_000)).send().await.is_effect(2);
}

/// R-I1: half a request is none.
pub(crate) async fn a_request_that_breaks_off_leaves_no_trace<F: Front>(place: Place) {
    let world = World::new::<F>(place).await;
    let mut client = TcpStream::connect(world.address()).await.unwrap();
    let half =
        "POST /v1/bookmarks HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 10\r\n\r\n{\"a\"";
    client.write_all(half.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // It is answered with 400 or not at all; a client that broke off hears neither.
    drop(client.read_to_end(&mut answer).await);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!((world.app.effects(), world.records().await.len()), (0, 0));
    world.post("/v1/bookmarks").key("k").send().await.is_effect(1);
}
