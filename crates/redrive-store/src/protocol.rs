//! The lease protocol: who may do what with a job, and what it counts, as pure functions.
//!
//! Both stores ask here before they write, and the model (`crates/redrive-model`) explores every interleaving of the same
//! functions. No rule about fences, attempts or budgets stands anywhere else.
//!
//! ```
//! use redrive_store::protocol::{After, Standing, Verdict};
//!
//! let first = Standing::default().leased(true);
//! let taken_over = first.seized();
//! assert!(!taken_over.holds(first.standing.fence), "who lost the lease cannot settle");
//! let After::Waits(back) = taken_over.settled(Verdict::Retry { crash: true }, false) else { panic!() };
//! assert_eq!((back.attempts, back.retries, back.crashes), (1, 0, 1));
//! ```

#[cfg(feature = "mutations")]
pub mod mutation;

/// What a job has been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Standing {
    /// Leases so far.
    pub fence: i64,
    /// Attempts that have begun.
    pub attempts: i64,
    /// Retries that count against `max_retries`.
    pub retries: i64,
    /// Crashes, which have a budget of their own.
    pub crashes: i64,
}

/// A job under a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// What it has been through, this lease included.
    pub standing: Standing,
    /// Whether its execution has begun, and so is counted.
    pub begun: bool,
}

/// How an attempt ended, as far as the protocol cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The job is done.
    Succeeded,
    /// It is tried again.
    Retry {
        /// Charged to the crash budget instead of `max_retries`.
        crash: bool,
    },
    /// It is set aside.
    Dead,
    /// It is put back as if the attempt had never begun.
    Uncounted,
    /// Somebody ended it.
    Cancelled,
}

/// Where a job stands after its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum After {
    /// It waits again.
    Waits(Standing),
    /// It is a dead letter.
    Dead(Standing),
    /// It is over, and was done.
    Succeeded,
    /// It is over, since somebody wanted it to be.
    Cancelled,
}

impl After {
    /// What the job has been through then; for one that is over, what it had been through before.
    pub const fn standing(self, before: Claim) -> Standing {
        match self {
            After::Waits(standing) | After::Dead(standing) => standing,
            After::Succeeded | After::Cancelled => before.standing,
        }
    }
}

impl Standing {
    /// The next lease, which nobody else has.
    pub const fn leased(self, begin: bool) -> Claim {
        let unbegun = Claim { standing: Standing { fence: self.fence + 1, ..self }, begun: false };
        if begin { unbegun.begun() } else { unbegun }
    }

    /// Put back by a person: a fresh budget. The fence goes on, so that a lease from before can never settle.
    pub const fn redriven(self) -> Standing {
        Standing { fence: self.fence, attempts: 0, retries: 0, crashes: 0 }
    }
}

impl Claim {
    /// Whether whoever shows this fence has the lease. The one guard against a worker that lost it.
    pub fn holds(&self, fence: i64) -> bool {
        #[cfg(feature = "mutations")]
        if mutation::is_without_fence() {
            return true;
        }
        self.standing.fence == fence
    }

    /// The execution begins. Beginning twice is beginning once: the answer to the first time may have been lost.
    pub const fn begun(self) -> Claim {
        if self.begun {
            return self;
        }
        Claim { standing: Standing { attempts: self.standing.attempts + 1, ..self.standing }, begun: true }
    }

    /// Somebody takes over what expired. From here on the fence before is worth nothing.
    pub const fn seized(self) -> Claim {
        Claim { standing: Standing { fence: self.standing.fence + 1, ..self.standing }, ..self }
    }

    /// The attempt ends. What somebody wants cancelled is not put back.
    pub const fn settled(self, verdict: Verdict, cancel_wanted: bool) -> After {
        let Standing { attempts, retries, crashes, .. } = self.standing;
        match verdict {
            Verdict::Succeeded => After::Succeeded,
            Verdict::Dead => After::Dead(self.standing),
            Verdict::Cancelled => After::Cancelled,
            Verdict::Retry { .. } | Verdict::Uncounted if cancel_wanted => After::Cancelled,
            Verdict::Retry { crash: true } => {
                After::Waits(Standing { crashes: crashes + 1, ..self.standing })
            }
            Verdict::Retry { crash: false } => {
                After::Waits(Standing { retries: retries + 1, ..self.standing })
            }
            Verdict::Uncounted => {
                After::Waits(Standing { attempts: attempts - self.begun as i64, ..self.standing })
            }
        }
    }
}
