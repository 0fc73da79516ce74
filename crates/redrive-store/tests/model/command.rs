//! The commands, in numbers that choose among what there is: a job, a token, a worker "of so many". So any list of
//! commands can run, and shrinking may drop any of them.

use proptest::prelude::*;
use redrive_policy::Cause;

/// How an attempt ends, without the details.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Succeeded,
    Retry { cause: Cause, delay: i64, held: bool, hint: bool },
    Dead(Cause),
    Snoozed { delay: i64, held: bool },
    Parked { delay: i64, held: bool },
    Cancelled,
    Released,
}

#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// The clock goes on, or back.
    Clock(i64),
    Register {
        presence: i64,
    },
    Unregister(usize),
    Enqueue {
        lane: usize,
        priority: i32,
        delay: i64,
        key: Option<u8>,
        held: Option<usize>,
        deadline: Option<i64>,
    },
    Lease {
        worker: usize,
        lanes: u8,
        max: usize,
        begin: bool,
    },
    Begin(usize),
    Renew(usize),
    Settle {
        token: usize,
        end: End,
    },
    /// Any token ever given out, most of them stale.
    SettleOld {
        token: usize,
        end: End,
    },
    Seize {
        worker: usize,
        max: usize,
    },
    RunNow(usize),
    Cancel(usize),
    Redrive(usize),
    Prune {
        age: i64,
        limit: u32,
    },
    Append,
}

pub(crate) fn commands(most: usize) -> impl Strategy<Value = Vec<Command>> {
    prop::collection::vec(command(), 1..=most)
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![Cause::Network, Cause::Crashed, Cause::AuthError, Cause::Quality])
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        3 => Just(End::Succeeded),
        4 => (cause(), 0..20_000_i64, prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(cause, delay, held, hint)| End::Retry { cause, delay, held, hint }),
        4 => cause().prop_map(End::Dead),
        1 => (0..20_000_i64, prop::bool::weighted(0.2)).prop_map(|(delay, held)| End::Snoozed { delay, held }),
        1 => (0..20_000_i64, prop::bool::weighted(0.2)).prop_map(|(delay, held)| End::Parked { delay, held }),
        1 => Just(End::Cancelled),
        2 => Just(End::Released),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let pick = || 0..1_000_usize;
    let enqueue = (
        0..4_usize,
        -2..=2_i32,
        prop_oneof![3 => Just(0_i64), 1 => 1..30_000_i64],
        prop::option::weighted(0.3, 0..3_u8),
        prop::option::weighted(0.2, pick()),
        prop::option::weighted(0.1, 1..20_000_i64),
    );
    prop_oneof![
        4 => prop_oneof![6 => 0..8_000_i64, 3 => 20_000..70_000_i64, 1 => -60_000..0_i64, 1 => Just(31_536_000_000_i64)]
            .prop_map(Command::Clock),
        2 => prop_oneof![5_000..60_000_i64].prop_map(|presence| Command::Register { presence }),
        1 => pick().prop_map(Command::Unregister),
        9 => enqueue.prop_map(|(lane, priority, delay, key, held, deadline)| Command::Enqueue {
            lane, priority, delay, key, held, deadline,
        }),
        12 => (pick(), prop_oneof![3 => Just(3_u8), 1 => 0..16_u8], 1..4_usize, prop::bool::weighted(0.6))
            .prop_map(|(worker, lanes, max, begin)| Command::Lease { worker, lanes, max, begin }),
        3 => pick().prop_map(Command::Begin),
        3 => pick().prop_map(Command::Renew),
        9 => (pick(), end()).prop_map(|(token, end)| Command::Settle { token, end }),
        1 => (pick(), end()).prop_map(|(token, end)| Command::SettleOld { token, end }),
        3 => (pick(), 1..4_usize).prop_map(|(worker, max)| Command::Seize { worker, max }),
        2 => pick().prop_map(Command::RunNow),
        2 => pick().prop_map(Command::Cancel),
        5 => pick().prop_map(Command::Redrive),
        2 => (0..100_000_i64, prop_oneof![1..5_u32, Just(1_000_u32)])
            .prop_map(|(age, limit)| Command::Prune { age, limit }),
        1 => Just(Command::Append),
    ]
}
