//! `redrive proxy` as its user meets it: what docs/proxy.md shows is what happens (R-C6), and what is wrong is said clearly, in both
//! languages, with the exit codes that scripts rely on (R-C1, R-C2).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod proxy_home;
mod repository;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use proxy_home::{Home, PATIENCE, Process, service};
use repository::transcript::{commands, lines, matches};
use repository::{blocks, read};

/// libfaketime, which lies to a process about the wall clock.
fn faketime() -> Option<PathBuf> {
    let roots = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
    let found = roots.iter().map(|root| Path::new(root).join("faketime/libfaketimeMT.so.1"));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing: install the package faketime");
        println!(
            "SKIPPED: libfaketime is missing; nothing about keys after 72 hours was proved on this machine"
        );
    }
    found
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The page's service, on another port than the page's.
fn bookmarks(home: &Home, page: &str) -> Process {
    let port = free_port();
    let source = blocks(page, "python").remove(0).replace("3000", &port.to_string());
    let file = home.folder.path().join("bookmarks.py");
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new("python3");
    command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    Process::started(command, |said| {
        assert!(began.elapsed() < PATIENCE, "{said}");
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok().then_some(port)
    })
}

/// R-I1 to R-I4, must show: the flow of seed 004 with curl, as the page shows it: first → 201; same → 201 replayed; other body → 409; after
/// 72 hours → new.
#[test]
fn the_page_shows_what_happens() {
    let Some(faketime) = faketime() else { return };
    let page = read("docs/proxy.md");
    let home = Home::new();
    let behind = bookmarks(&home, &page);
    let words = format!("--upstream {} --listen 127.0.0.1:0", behind.url(""));
    let mut proxy = home.proxy(&words);
    let mut typed = 0;
    for part in page.split_inclusive("-->") {
        for block in blocks(part, "console") {
            for (command, shown) in commands(&block) {
                let line = command.replace("7412", &proxy.port.to_string());
                let output = Command::new("sh").args(["-c", &line]).output().unwrap();
                let printed = String::from_utf8(output.stdout).unwrap().replace('\r', "");
                assert!(output.status.success(), "$ {command}\n{printed}");
                let same = matches(&shown, &lines(&printed));
                assert!(same, "$ {command}\nshows\n{}\nbut prints\n{printed}", shown.join("\n"));
                typed += 1;
            }
        }
        if let Some((_, outside)) = part.trim_end_matches(" -->").rsplit_once("<!-- outside: ") {
            assert_eq!(outside, "72 hours pass");
            proxy.signal("TERM");
            assert_eq!(proxy.ends(), Some(0), "{}", proxy.said());
            let mut later = home.command(&format!("proxy {words}"));
            later
                .env("LD_PRELOAD", &faketime)
                .envs([("FAKETIME", "+72h"), ("DONT_FAKE_MONOTONIC", "1"), ("NO_FAKE_STAT", "1")])
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            proxy = Process::started(later, |said| {
                said.split_once("proxy on http://127.0.0.1:")?.1.split_once(' ')?.0.parse().ok()
            });
        }
    }
    assert_eq!(typed, 4);
}

/// R-C1: what is wrong with the command line ends with 2, what is wrong with the machine with 1, and each says what to do.
#[test]
fn what_is_wrong_is_said_before_anything_begins() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = format!("--upstream http://localhost:1 --listen {}", taken.local_addr().unwrap());
    std::fs::write(home.folder.path().join("file"), "").unwrap();
    for (words, code, message) in [
        ("", 2, "which service is meant?"),
        ("--upstream localhost:3000", 2, "localhost:3000 cannot be the service's address"),
        ("--upstream ftp://localhost", 2, "only http:// and https:// are spoken"),
        ("--upstream http://localhost/api", 2, "a path in it would change what clients ask for"),
        ("--upstream http://ada:hunter2@localhost", 2, "a name or a password in it"),
        ("--upstream http://localhost:1 --listen nowhere", 2, "nowhere is no address to listen at"),
        ("--upstream http://localhost:1 --admin 127.0.0.1", 2, "127.0.0.1 is no address to listen at"),
        ("--upstream http://localhost:1 --policy nonesuch", 2, "nonesuch"),
        ("--upstream http://localhost:1 --max-connections 0", 2, "--max-connections"),
        (in_use.as_str(), 1, "is in use already"),
        ("--upstream http://localhost:1 --listen 127.0.0.1:0 --store sqlite:file/redrive.db", 1, "file"),
    ] {
        // None of them gets as far as listening; one that did would be ended here.
        let (ended, stdout, stderr) = home.redrive(&format!("proxy {words}"));
        assert_eq!((ended, stdout.as_str()), (Some(code), ""), "{words}: {stderr}");
        assert!(stderr.contains(message) && stderr.contains("hint: "), "{words}: {stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

/// R-C2: it begins with one line that says what is guarded and where, from flags and from the configuration, in both languages.
#[test]
fn it_says_what_is_guarded_and_where() {
    let home = Home::new();
    let behind = service(&home, 0, 0.0);
    let said = |words: &str| {
        let mut proxy = home.command(&format!("proxy {words}"));
        proxy.stdout(Stdio::null());
        let mut proxy = Process::started(proxy, |said| said.contains('\n').then_some(1));
        proxy.signal("INT");
        assert_eq!(proxy.ends(), Some(0), "{}", proxy.said());
        proxy.said()
    };
    let flags = format!("--upstream {} --listen 127.0.0.1:0", behind.url(""));
    let told = said(&flags);
    assert!(
        told.contains(&format!(" for {}; done once: every POST and PATCH with a key", behind.url(""))),
        "{told}"
    );
    let told = said(&format!("{flags} --lang ja"));
    assert!(told.contains("キー付きのすべての POST と PATCH"), "{told}");
    home.configure(&format!(
        "[proxy]\nupstream = \"{}\"\nlisten = \"127.0.0.1:0\"\n[[idempotency.route]]\nmethods = [\"POST\"]\npath = \"/v1/bookmarks\"\nrequired = true\n",
        behind.url("")
    ));
    let told = said("");
    assert!(told.contains("; done once: POST /v1/bookmarks (key required)"), "{told}");
}

/// A service behind TLS, whose certificate lies beside it.
const OVER_TLS: &str = r#"
import http.server, ssl, sys

class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("certificate.pem", "key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, file=sys.stderr, flush=True)
server.serve_forever()
"#;

/// R-I6, R-T8: a service behind TLS is reached when the machine trusts its certificate, and not spoken to otherwise.
#[test]
fn a_service_behind_tls_has_to_be_trusted() {
    let home = Home::new();
    let folder = home.folder.path();
    let words = "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out certificate.pem -subj /CN=localhost \
                 -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE";
    let made = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "openssl is missing");
        println!("SKIPPED: openssl is missing; nothing about services behind TLS was proved on this machine");
        return;
    }
    let mut behind = Command::new("python3");
    behind.args(["-c", OVER_TLS]).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped());
    let behind = Process::started(behind, |said| said.split_once('\n')?.0.parse().ok());
    for trusted in [true, false] {
        let words = format!("proxy --upstream https://localhost:{} --listen 127.0.0.1:0", behind.port);
        let mut command = home.command(&words);
        if trusted {
            command.env("SSL_CERT_FILE", folder.join("certificate.pem"));
        }
        let proxy = Process::started(command, |said| {
            said.split_once("proxy on http://127.0.0.1:")?.1.split_once(' ')?.0.parse().ok()
        });
        let key = format!("Idempotency-Key: {trusted}");
        let asked =
            Command::new("curl").args(["-s", "-d", "x", "-H", &key, &proxy.url("/")]).output().unwrap();
        let answer = String::from_utf8(asked.stdout).unwrap();
        let expected = if trusted { "done" } else { "upstream-unreachable" };
        assert!(answer.contains(expected), "{answer} {}", proxy.said());
        // What the proxy tells a person goes another way than its answer, and may come a little later.
        let began = Instant::now();
        while !trusted && !proxy.said().contains("certificate") {
            assert!(began.elapsed() < PATIENCE, "{}", proxy.said());
            std::thread::yield_now();
        }
        assert_eq!(proxy.said().contains("certificate"), !trusted, "{}", proxy.said());
    }
}
