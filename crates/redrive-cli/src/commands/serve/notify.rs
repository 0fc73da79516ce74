//! Telling the service manager how it stands: systemd's protocol is a datagram of lines to the socket that it names. Where no
//! manager asks, nothing is sent.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::escape::escape;

/// Whoever started this process and wants to know how it stands.
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the process lives.
    watchdog: Option<Duration>,
    heard: Mutex<Option<Instant>>,
}

impl Manager {
    /// The one that the environment names, if it does.
    pub(super) fn found(env: &HashMap<OsString, OsString>) -> Manager {
        let variable = |name: &str| env.get(OsStr::new(name));
        let number = |name: &str| variable(name).and_then(|value| value.to_str()?.parse::<u64>().ok());
        let address = variable("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            [b'/', ..] => SocketAddr::from_pathname(name).ok(),
            _ => None,
        });
        let socket = address.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // A manager that does not listen stops nobody.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        // Twice as often as it asks, as it advises.
        let watchdog = number("WATCHDOG_USEC")
            .filter(|usec| for_us && *usec > 0)
            .map(|usec| Duration::from_micros(usec / 2));
        Manager { socket, watchdog, heard: Mutex::new(None) }
    }

    /// It takes requests, from the start or again.
    pub(super) fn ready(&self, status: &str) {
        if status.is_empty() {
            self.send("READY=1");
        } else {
            self.send(&format!("READY=1\nSTATUS={}", escape(status)));
        }
    }

    /// It reads its configuration again.
    pub(super) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// It is on its way out.
    pub(super) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", escape(status)));
    }

    /// What it does, in words.
    pub(super) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", escape(status)));
    }

    /// It lives; told as often as the manager wants to hear it.
    pub(super) fn alive(&self) {
        let Some(every) = self.watchdog else { return };
        let mut heard = self.heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if heard.is_none_or(|at| at.elapsed() >= every) {
            *heard = Some(Instant::now());
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, lines: &str) {
        if let Some((socket, address)) = &self.socket {
            // What cannot be told is no reason to stop serving.
            let _ = socket.send_to_addr(lines.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 8, operations: the manager hears each step, the time of a reload included, and the watchdog as often as it asks.
    #[test]
    fn a_manager_hears_each_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "20000000")];
        let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value))).into();
        let manager = Manager::found(&env);
        let hear = || {
            let mut bytes = [0; 1024];
            let n = socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..n].to_vec()).unwrap()
        };
        manager.ready("serving http://[::1]:1\nREADY=0");
        assert_eq!(hear(), "READY=1\nSTATUS=serving http://[::1]:1 READY=0");
        manager.reloading();
        assert!(hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        manager.alive();
        manager.alive();
        manager.stopping("bye");
        assert_eq!((hear(), hear()), ("WATCHDOG=1".to_owned(), "STOPPING=1\nSTATUS=bye".to_owned()));
    }

    /// Issue 8, operations: without a manager nothing happens, also when it named a place that is none.
    #[test]
    fn nobody_is_told_where_nobody_asks() {
        Manager::found(&HashMap::new()).ready("");
        let env = HashMap::from([(OsString::from("NOTIFY_SOCKET"), OsString::from("nonsense"))]);
        Manager::found(&env).alive();
    }
}
