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
type Family = (&'static str, Kind, &'static str, fn(&TargetView) -> Option<u64>);

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
                |target| Some(u64::from(target.standing.parked)),
            ),
            (
                "redrive_target_parked_total",
                Kind::Counter,
                "How often jobs were parked for a target.",
                |target| Some(target.parked_total),
            ),
            ("redrive_target_opened_total", Kind::Counter, "How often a target was found sick.", |target| {
                Some(target.opened_total)
            }),
            (
                "redrive_retry_budget",
                Kind::Gauge,
                "Retries and redriven jobs that a target can bear at once.",
                |target| target.standing.budget.map(u64::from),
            ),
        ];
        for (name, kind, help, number) in sums {
            text.family(name, kind, help);
            for target in &targets {
                // What it has none of is not told as nothing left.
                if let Some(number) = number(target) {
                    text.sample(name, &[("target", &target.name)], number);
                }
            }
            if let Some(sum) = rest.iter().filter_map(number).reduce(u64::saturating_add) {
                text.sample(name, &[("target", OTHER)], sum);
            }
        }
        Ok(())
    }
}
