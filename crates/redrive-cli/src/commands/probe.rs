//! Asking a server of redrive how it stands, within a bound: for `doctor` and `health`, which must not need anything that could be
//! missing. On this machine any certificate will do: nothing secret is sent, and it is made for the name that others call it by.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most that is read of an answer.
const MOST: u64 = 64 * 1024;

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A status and a body.
    Answered(u16, String),
    /// Nobody listens there.
    Nobody,
    /// Something else is wrong.
    Trouble(String),
    /// It is no address of a server.
    NoAddress,
}

/// Asks the server at this URL for a path.
pub(super) fn ask(url: &str, path: &str) -> Said {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let default_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Said::NoAddress,
    };
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = if has_port { authority.to_owned() } else { format!("{authority}:{default_port}") };
    let Ok(mut addresses) = place.to_socket_addrs() else { return Said::NoAddress };
    let Some(address) = addresses.next() else { return Said::NoAddress };
    let mut stream = match TcpStream::connect_timeout(&address, PATIENCE) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Said::Nobody,
        Err(error) => return Said::Trouble(error.to_string()),
    };
    if scheme == "https" {
        let said = over_tls(&format!("https://{authority}{path}"), address.ip().is_loopback());
        return said.unwrap_or_else(Said::Trouble);
    }
    match exchange(&mut stream, authority, path) {
        Ok(Some((status, body))) => Said::Answered(status, body),
        Ok(None) => Said::Trouble("the answer is no HTTP".to_owned()),
        Err(error) => Said::Trouble(error.to_string()),
    }
}

fn over_tls(url: &str, is_here: bool) -> Result<Said, String> {
    let told = |error: &dyn std::error::Error| {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            words = format!("{words}: {error}");
            cause = error.source();
        }
        words
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| told(&error))?;
    runtime.block_on(async {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .tls_danger_accept_invalid_certs(is_here);
        let client = client.build().map_err(|error| told(&error))?;
        let mut answer = client.get(url).send().await.map_err(|error| told(&error.without_url()))?;
        let (status, mut body) = (answer.status().as_u16(), Vec::new());
        while (body.len() as u64) < MOST
            && let Some(chunk) = answer.chunk().await.map_err(|error| told(&error.without_url()))?
        {
            body.extend_from_slice(&chunk);
        }
        Ok(Said::Answered(status, String::from_utf8_lossy(&body).trim().to_owned()))
    })
}

fn exchange(stream: &mut TcpStream, host: &str, path: &str) -> io::Result<Option<(u16, String)>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: */*\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return Ok(None) };
    let status = head.strip_prefix("HTTP/1.").and_then(|head| head.get(2..5)?.parse().ok());
    Ok(status.map(|status| (status, body.trim().to_owned())))
}

/// The URL at which a server that was told to listen there can be asked from this machine.
pub(super) fn url_of(listen: &str, tls: bool) -> String {
    let listen = match listen.rsplit_once(':') {
        Some(("0.0.0.0", port)) => format!("127.0.0.1:{port}"),
        Some(("[::]", port)) => format!("[::1]:{port}"),
        _ => listen.to_owned(),
    };
    format!("{}://{listen}", if tls { "https" } else { "http" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: &'static [u8]) -> Said {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).unwrap();
            assert!(
                String::from_utf8_lossy(&bytes[..read])
                    .starts_with("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:")
            );
            stream.write_all(answer).unwrap();
        });
        let said = ask(&url, "/readyz");
        server.join().unwrap();
        said
    }

    /// Issue 8, operations: an answer is read, and what is none is told as such.
    #[test]
    fn an_answer_is_read() {
        let said = answered(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\ndraining\n");
        assert_eq!(said, Said::Answered(503, "draining".to_owned()));
        assert!(matches!(answered(b"SSH-2.0-OpenSSH\r\n"), Said::Trouble(_)));
        assert!(matches!(answered(b"HTTP/1.x abc\r\n\r\n"), Said::Trouble(_)));
    }

    /// Issue 8, operations: nobody there is told apart from no address.
    #[test]
    fn nobody_is_told_apart_from_no_address() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(ask(&format!("http://{free}"), "/"), Said::Nobody);
        assert_eq!(ask("ftp://127.0.0.1", "/"), Said::NoAddress);
        assert_eq!(ask("http://", "/"), Said::NoAddress);
        assert_eq!(url_of("0.0.0.0:80", false), "http://127.0.0.1:80");
        assert_eq!(url_of("[::]:7411", true), "https://[::1]:7411");
    }
}
