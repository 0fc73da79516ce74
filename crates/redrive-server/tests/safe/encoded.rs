//! Bodies that come compressed: nothing is decompressed, so that a small one cannot become a large one (reliability row 59).

use std::time::Duration;

use crate::world::World;

/// How what gzip makes of anything begins.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03";

fn head(path: &str, more: &str, length: usize) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Reliability row 59: whatever the coding is called, a body in it is refused with 415 before it is read, a key that comes with it is not taken, and
/// nothing is done; what says that it is as it is passes, and compressed bytes without a word are no JSON.
#[tokio::test]
async fn a_compressed_body_is_refused_and_never_inflated() {
    let world = World::new().await;
    let job = br#"{"kind":"greet","queue":"q","payload":{}}"#;
    for coding in [
        "gzip",
        "GZIP",
        "deflate",
        "br",
        "zstd",
        "x-gzip",
        "identity, gzip",
        "gzip\r\nContent-Encoding: gzip",
        "nonsense",
    ] {
        for path in ["/v1/jobs", "/v1/queues/q/lease", "/v1/leases/settle", "/v1/dead-letters/import"] {
            let more = format!("Content-Encoding: {coding}\r\nIdempotency-Key: \"bomb\"\r\n");
            let mut request = head(path, &more, GZIP.len());
            request.extend(GZIP);
            let answer = world.raw(&request, Duration::from_secs(10)).await;
            assert_eq!(answer.status(), Some(415), "{coding} {path}: {}", answer.text);
            let told = answer.text.to_lowercase();
            assert!(told.contains("accept-encoding: identity"), "{coding}: {}", answer.text);
            assert!(
                told.contains("unsupported-media-type") && told.contains("compressed"),
                "{}",
                answer.text
            );
        }
    }
    // One that promises ten mebibytes is answered although they never come.
    let request = head("/v1/jobs", "Content-Encoding: gzip\r\n", 5 << 20);
    let answer = world.raw(&request, Duration::from_secs(10)).await;
    assert_eq!(answer.status(), Some(415), "{}", answer.text);
    let mut request = head("/v1/jobs", "", GZIP.len());
    request.extend(GZIP);
    let answer = world.raw(&request, Duration::from_secs(10)).await;
    assert_eq!(answer.status(), Some(400), "{}", answer.text);
    // The key was never taken: under it, what is as it is gets done.
    let mut request =
        head("/v1/jobs", "Content-Encoding: identity\r\nIdempotency-Key: \"bomb\"\r\n", job.len());
    request.extend(job);
    let answer = world.raw(&request, Duration::from_secs(10)).await;
    assert_eq!(answer.status(), Some(201), "{}", answer.text);
    assert_eq!(world.events("job_enqueued").await.len(), 1, "and nothing else was done");
}

/// Reliability row 59: nothing that we answer depends on what a client would like to decompress.
#[tokio::test]
async fn answers_are_as_they_are() {
    let world = World::new().await;
    let request = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Encoding: gzip\r\nAccept-Encoding: gzip, br, zstd\r\n\r\n";
    let answer = world.raw(request, Duration::from_secs(10)).await;
    assert_eq!(answer.status(), Some(200), "{}", answer.text);
    assert!(!answer.text.to_lowercase().contains("content-encoding"), "{}", answer.text);
}
