//! Two servers on one PostgreSQL, of which each may be killed and comes back at its address.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::serve_home::{Home, Serving, ask};

pub(crate) struct Pair {
    pub(crate) home: Home,
    pub(crate) doors: Doors,
    flags: String,
    servers: [Option<Serving>; 2],
}

impl Pair {
    /// Nothing where there is no PostgreSQL.
    pub(crate) fn start(toml: &str, flags: &str) -> Option<Pair> {
        let home = Home::on_postgres()?;
        home.configure(toml);
        // The same port each time, as whoever restarts a server does.
        let free = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
        let addresses = free.each_ref().map(|free| free.local_addr().unwrap().to_string());
        drop(free);
        let doors = Doors { addresses: Arc::new(addresses), turn: Arc::default() };
        let mut pair = Pair { home, doors, flags: flags.to_owned(), servers: [None, None] };
        pair.serve(0);
        pair.serve(1);
        Some(pair)
    }

    fn serve(&mut self, which: usize) {
        let words = format!("serve --listen {} {}", self.doors.addresses[which], self.flags);
        let words: Vec<&str> = words.split_whitespace().collect();
        self.servers[which] = Some(Serving::started(self.home.command(&words)));
    }

    /// Kills one of them in the middle of whatever it does, and starts it again.
    pub(crate) fn kill(&mut self, which: usize) {
        if let Some(mut server) = self.servers[which].take() {
            server.signal("KILL");
            assert_eq!(server.ends(), None, "it was killed");
        }
        self.serve(which);
    }

    pub(crate) fn server(&self, which: usize) -> &Serving {
        self.servers[which].as_ref().unwrap()
    }

    /// How a queue stands.
    pub(crate) fn queue(&self, name: &str) -> Value {
        let status = self.home.json("status");
        let of = status["queues"].as_array().and_then(|all| all.iter().find(|queue| queue["queue"] == name));
        of.cloned().unwrap_or_default()
    }
}

/// The addresses of both. Whoever finds one closed asks the other.
#[derive(Clone)]
pub(crate) struct Doors {
    pub(crate) addresses: Arc<[String; 2]>,
    turn: Arc<AtomicUsize>,
}

impl Doors {
    /// Asks one of them, now this and now that: status and answer, or nothing.
    pub(crate) fn ask(&self, path: &str, body: &Value) -> Option<(u16, Value)> {
        let address = &self.addresses[self.turn.fetch_add(1, Ordering::Relaxed) % 2];
        let (status, said) = ask(address, address, "POST", path, &[], &body.to_string())?;
        Some((status, serde_json::from_str(&said).unwrap_or(Value::Null)))
    }

    /// Adds jobs, while nobody is killed.
    pub(crate) fn enqueue(&self, jobs: &[Value]) {
        let (status, said) = self.ask("/v1/jobs", &serde_json::json!({ "jobs": jobs })).unwrap();
        assert!(status == 200 || status == 201, "{status} {said}");
    }
}
