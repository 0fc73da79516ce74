//! The servers that are measured: the bare handler in a process of its own, and the real binary.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;

/// A server of its own process, ended with this.
pub struct Place {
    child: Child,
    pub port: u16,
}

impl Place {
    /// The handler that does nothing but read its body.
    pub fn bare() -> io::Result<Place> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bare")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
        let port = line.trim().parse().map_err(io::Error::other)?;
        Ok(Place { child, port })
    }

    /// `redrive serve` on this store, without workers of its own.
    pub fn redrive(store: &str, folder: &Path) -> io::Result<Place> {
        let program = std::env::var("REDRIVE").map_err(|_| io::Error::other("REDRIVE names the binary"))?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(program)
            .args(["serve", "--concurrency", "0", "--listen", &format!("127.0.0.1:{port}"), "--store", store])
            .current_dir(folder)
            .env("XDG_CONFIG_HOME", folder)
            .env_remove("REDRIVE_CONFIG")
            .stderr(std::fs::File::create(folder.join("serve.log"))?)
            .spawn()?;
        let place = Place { child, port };
        let until = Instant::now() + Duration::from_secs(20);
        while !ready(port) {
            if Instant::now() > until {
                return Err(io::Error::other("the server did not become ready; see serve.log"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(place)
    }

    /// The processor time that it has used, in seconds.
    pub fn cpu(&self) -> io::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let fields: Vec<&str> = after.split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN);
        // Clock ticks are hundredths on every Linux that this runs on.
        Ok((ticks(11) + ticks(12)) / 100.0)
    }

    /// The memory that it has, and the most it ever had, in MB.
    pub fn memory(&self) -> io::Result<(f64, f64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
            kib.map_or(f64::NAN, |kib| kib / 1024.0)
        };
        Ok((of("VmRSS:"), of("VmHWM:")))
    }
}

fn ready(port: u16) -> bool {
    use std::io::{Read, Write};
    let asked = || -> io::Result<String> {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    asked().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

impl Drop for Place {
    fn drop(&mut self) {
        // The bare one ends with its standard input; the real one is told to.
        if self.child.stdin.take().is_none() {
            let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
            if told.is_err() {
                eprintln!("the server could not be told to end");
            }
        }
        if self.child.wait().is_err() {
            eprintln!("a server could not be waited for");
        }
    }
}

/// The handler that does nothing, until standard input ends.
pub fn bare() -> io::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let app = Router::new()
            .route("/v1/jobs", post(|body: Bytes| async move { (StatusCode::CREATED, body.len().to_string()) }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        tokio::spawn(async move { axum::serve(listener, app).await });
        tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await.map_err(io::Error::other)?
    })?;
    Ok(())
}
