//! Somebody who takes webhooks: a small server that answers as it is told and keeps what it got.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What came in.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) head: String,
    pub(crate) body: serde_json::Value,
    pub(crate) answered: u16,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

#[derive(Clone)]
pub(crate) struct Sink {
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Sink {
    /// Answers with these, and with 200 from then on.
    pub(crate) async fn answering(first: &[u16]) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = Sink { port: listener.local_addr().unwrap().port(), got: Arc::default() };
        let (kept, first) = (Arc::clone(&sink.got), first.to_vec());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some((head, body)) = read(&mut stream).await else { continue };
                let answered = {
                    let mut kept = kept.lock().unwrap();
                    let answered = first.get(kept.len()).copied().unwrap_or(200);
                    kept.push(Got { head, body, answered });
                    answered
                };
                let answer =
                    format!("HTTP/1.1 {answered} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        sink
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/services/T000/B000/verysecretpath", self.port)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> Option<(String, serde_json::Value)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let n = stream.read(&mut chunk).await.ok()?;
        if n == 0 {
            return None;
        }
        bytes.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), serde_json::from_str(body).unwrap()));
        }
    }
}
