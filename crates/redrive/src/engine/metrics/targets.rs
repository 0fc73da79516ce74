//! Numbers about protected targets (R-P15). Their names are other people's: those that matter most have samples of their own, and the
//! rest is one, `other`.

use super::exposition::{Exposition, Kind};
use crate::engine::{Engine, EngineError, TargetView};

/// How many targets have samples of their own.
const NAMED: usize = 50;
/// How many are looked at.
const LOOKED_AT: u32 = 1_000;
/// What the rest is called.
const OTHER: &str = "other";
/// Where a breaker may stand.
const STATES: [&str; 4] = ["closed", "half_open", "open", "ramp"];

/// A family of samples: its name, its kind, what it is, and the number of one target.
type Family = (&'static str, Kind, &'static str, fn(&TargetView) -> u64);

impl Engine {
    pub(super) async fn expose_targets(&self, text: &mut Exposition) -> Result<(), EngineError> {
        let mut targets = self.targets_that_matter(LOOKED_AT).await?;
        if targets.is_empty() {
            return Ok(());
        }
        let rest = targets.split_off(NAMED.min(targets.len()));
        text.family(
            "redrive_target_state",
            Kind::Gauge,
            "Where the breaker of a target stands: 1 for the state that it is in; of the others, how many.",
        );
        for target in &targets {
            for state in STATES {
                let is = u64::from(target.phase.name() == state);
                text.sample("redrive_target_state", &[("target", &target.name), ("state", state)], is);
            }
        }
        for state in STATES {
            let count = rest.iter().filter(|target| target.phase.name() == state).count() as u64;
            text.sample("redrive_target_state", &[("target", OTHER), ("state", state)], count);
        }
        let sums: [Family; 4] = [
            (
                "redrive_target_parked",
                Kind::Gauge,
                "Jobs that are parked for a target now, about.",
                |target| u64::from(target.standing.parked),
            ),
            (
                "redrive_target_parked_total",
                Kind::Counter,
                "How often jobs were parked for a target.",
                |target| target.parked_total,
            ),
            ("redrive_target_opened_total", Kind::Counter, "How often a target was found sick.", |target| {
                target.opened_total
            }),
            (
                "redrive_retry_budget",
                Kind::Gauge,
                "Retries and redriven jobs that a target can bear at once.",
                |target| u64::from(target.standing.budget.unwrap_or(0)),
            ),
        ];
        for (name, kind, help, number) in sums {
            text.family(name, kind, help);
            for target in &targets {
                text.sample(name, &[("target", &target.name)], number(target));
            }
            text.sample(name, &[("target", OTHER)], rest.iter().map(number).fold(0, u64::saturating_add));
        }
        Ok(())
    }
}
