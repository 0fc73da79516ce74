//! A command and everybody it started, as something that can be signalled and ended as a whole.
//!
//! Members are found in three ways, because each alone loses some: the command's own process group, which is
//! reached in one stroke; descendants by parent, which finds those that left the group; and those seen before,
//! which finds orphans. A process is known by its number *and* its start, and the command itself is not reaped
//! before its family has been dealt with, so that a number which was given away again is never hit.

use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

/// How long we wait for the dead to be dead.
const KILL_WITHIN: Duration = Duration::from_secs(1);
const LONGEST_LOOK: Duration = Duration::from_millis(25);

/// Whose process group the command is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// One of its own, with its number.
    Own,
    /// Ours: the terminal's.
    Ours,
}

/// The command and its descendants. Dropped while it may live, it is killed.
pub(super) struct Family {
    leader: Pid,
    group: Group,
    seen: Vec<Process>,
    may_live: bool,
}

/// What is known about one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    group: i32,
    started: u64,
    dead: bool,
}

impl Family {
    pub(super) fn new(leader: Pid, group: Group) -> Family {
        Family { leader, group, seen: Vec::new(), may_live: true }
    }

    /// The command has ended by itself and was reaped. Whom it left behind it left on purpose.
    pub(super) fn is_done(&mut self) {
        self.may_live = false;
    }

    /// Passes a signal on that has reached us.
    pub(super) fn pass_on(&mut self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        match self.group {
            Group::Own => {
                let _ = kill_process_group(self.leader, signal);
            }
            // The keyboard speaks to the whole foreground group: the command has heard it already, and many
            // programs take a second Ctrl-C for "drop everything".
            Group::Ours if matches!(signal, Signal::INT | Signal::QUIT) => {}
            Group::Ours => self.signal(signal),
        }
    }

    /// Asks everybody to end, and kills whoever is still there after `grace`.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        // One that is stopped hears nothing until it goes on.
        self.signal(Signal::CONT);
        if !self.is_gone_within(grace, None).await {
            self.kill();
            self.is_gone_within(KILL_WITHIN, Some(Signal::KILL)).await;
        }
    }

    /// Kills everybody, now.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Whether everybody is gone before the time is over; `again` is sent to those who turn up meanwhile.
    async fn is_gone_within(&mut self, time: Duration, again: Option<Signal>) -> bool {
        let began = Instant::now();
        let mut look = Duration::from_millis(1);
        loop {
            match self.living() {
                Some(living) if living.is_empty() => return true,
                _ => {}
            }
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return false;
            }
            sleep(look.min(left)).await;
            look = (look * 2).min(LONGEST_LOOK);
            if let Some(signal) = again {
                self.signal(signal);
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        // Looked at before the blow: the children of the dead belong to nobody.
        let living = self.living().unwrap_or_default();
        if self.group == Group::Own {
            let _ = kill_process_group(self.leader, signal);
        }
        let leader = self.leader.as_raw_pid();
        for process in living {
            if self.group == Group::Ours || process.group != leader {
                process.signal(signal);
            }
        }
    }

    /// Who lives of the family; nothing when the system does not tell.
    fn living(&mut self) -> Option<Vec<Process>> {
        let all = processes()?;
        let leader = self.leader.as_raw_pid();
        let mut members: Vec<Process> = all
            .iter()
            .filter(|process| {
                process.pid == leader
                    || (self.group == Group::Own && process.group == leader)
                    || self.seen.iter().any(|seen| seen.is(process))
            })
            .copied()
            .collect();
        let mut next = 0;
        while let Some(parent) = members.get(next).map(|member| member.pid) {
            for process in all.iter().filter(|process| process.parent == parent) {
                if !members.contains(process) {
                    members.push(*process);
                }
            }
            next += 1;
        }
        members.retain(|member| !member.dead);
        self.seen.clone_from(&members);
        Some(members)
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        if self.may_live {
            self.kill();
        }
    }
}

impl Process {
    fn is(&self, other: &Process) -> bool {
        self.pid == other.pid && self.started == other.started
    }

    /// Signals this very process: the descriptor is taken first and its number looked at afterwards.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid)
            && let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
            && look_at(self.pid).is_some_and(|now| self.is(&now))
        {
            let _ = pidfd_send_signal(descriptor, signal);
        }
    }
}

/// Everybody, as `/proc` has it; nothing where there is none.
pub(super) fn processes() -> Option<Vec<Process>> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let all: Vec<Process> =
        entries.filter_map(|entry| look_at(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect();
    (!all.is_empty()).then_some(all)
}

fn look_at(pid: i32) -> Option<Process> {
    parse_stat(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads a line of `/proc/<pid>/stat`. The name in it may hold anything, so that fields count from its end.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(Process { pid, parent, group, started, dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_does_not_confuse() {
        let stat = b"7 (a) Z 9 (b)) S 3 5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 1";
        let read = parse_stat(7, stat);
        assert_eq!(read, Some(Process { pid: 7, parent: 3, group: 5, started: 4711, dead: false }));
        assert_eq!(parse_stat(7, b"7 (x"), None);
    }

    #[test]
    fn we_ourselves_are_found() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(processes().unwrap().iter().any(|process| process.pid == me && !process.dead));
    }
}
