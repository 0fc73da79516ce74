//! What happens when: the acts of the show, the traffic, and the configuration that makes waits short enough to watch. All
//! lengths are those of a show of 20 s, and shrink or grow with it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use redrive_policy::human_duration;

use super::upstream::Mood;

/// A show that is longer is played in rounds of this length.
const ROUND: Duration = Duration::from_secs(30);
/// The length that the script is written for.
const WRITTEN_FOR: Duration = Duration::from_secs(20);

/// A part of the show.
#[derive(Debug)]
pub(super) struct Act {
    /// Its name, which programs go by; `demo.act.<name>` says it to people.
    pub(super) name: &'static str,
    /// When it begins, as a share of the round.
    begins: f64,
    pub(super) mood: Mood,
    /// What died of the lost key is put back.
    pub(super) redrives: bool,
}

const fn act(name: &'static str, begins: f64, mood: Mood) -> Act {
    Act { name, begins, mood, redrives: false }
}

pub(super) const ACTS: [Act; 7] = [
    act("calm", 0.0, Mood::Healthy),
    act("rate-limited", 0.12, Mood::RateLimiting),
    act("slow", 0.24, Mood::Slow),
    act("down", 0.34, Mood::Down),
    act("back", 0.50, Mood::Healthy),
    act("auth-broken", 0.60, Mood::AuthBroken),
    Act { name: "redriven", begins: 0.70, mood: Mood::Healthy, redrives: true },
];

/// New orders come until here; what is left of the round is for those that are under way.
const TRAFFIC_ENDS: f64 = 0.92;
/// How many orders come in a show of 20 s, each second.
const ORDERS_PER_SECOND: f64 = 8.0;
/// Of so many orders one has no card.
const NO_CARD: u64 = 12;

/// The pace of a show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    round: Duration,
    scale: f64,
}

impl Pace {
    pub(super) fn of(lasts: Duration) -> Pace {
        let round = lasts.min(ROUND);
        Pace { round, scale: round.as_secs_f64() / WRITTEN_FOR.as_secs_f64() }
    }

    /// A length of the script, as it is played.
    pub(super) fn played(self, written: Duration) -> Duration {
        written.mul_f64(self.scale).max(Duration::from_millis(20))
    }

    /// Where the show is: the round, and the share of it that is over.
    fn place(self, at: Duration) -> (u64, f64) {
        let rounds = at.as_secs_f64() / self.round.as_secs_f64().max(0.001);
        // As long as anybody watches, rounds are few.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let round = rounds as u64;
        (round, rounds.fract())
    }

    /// The number of the act that is played, counted through all rounds.
    pub(super) fn act(self, at: Duration) -> usize {
        let (round, share) = self.place(at);
        let within = ACTS.iter().rposition(|act| act.begins <= share).unwrap_or(0);
        usize::try_from(round).unwrap_or(0).saturating_mul(ACTS.len()).saturating_add(within)
    }

    /// How many orders have come by then.
    pub(super) fn orders(self, at: Duration) -> u64 {
        let a_round = TRAFFIC_ENDS * WRITTEN_FOR.as_secs_f64() * ORDERS_PER_SECOND;
        let (round, share) = self.place(at);
        #[allow(clippy::cast_precision_loss)]
        let so_far = round as f64 * a_round + share.min(TRAFFIC_ENDS) / TRAFFIC_ENDS * a_round;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let orders = so_far as u64;
        orders
    }
}

/// What an order says. Some have no card, and no upstream in any mood takes those.
pub(super) fn order(number: u64) -> String {
    let card = if number % NO_CARD == NO_CARD - 1 { "" } else { "tok_4242" };
    format!("{{\"order\":{number},\"card\":\"{card}\"}}")
}

/// The configuration of the show, as a file would say it.
pub(super) fn configuration(upstream: SocketAddr, store: &Path, pace: Pace) -> String {
    let long = |written_ms: u64| human_duration(pace.played(Duration::from_millis(written_ms)));
    format!(
        r#"# The configuration of `redrive demo`: everything is quicker than in life, so that it can be watched.
store = "sqlite:{store}"
policy = "demo"

[policies.demo]
extends = "stream"
max_retries = 4

[policies.demo.backoff]
type = "exponential"
initial_delay = "{initial}"
max_delay = "{cap}"
jitter = {{ mode = "plus_minus", factor = 0.2 }}

# Calls to the upstream stop while it is sick: what would have failed is parked, and no attempt is spent.
[targets."host:{upstream}"]
failures = 60
of_at_least = 6
within = "{within}"
open_for = "{open}"
open_for_at_most = "{open_most}"
probes = 2
ramp = "{ramp}"
pace = "50/s"
budget = false

# A job that came in over the API may reach nothing private but the upstream.
[server]
allow = ["{upstream}"]
"#,
        store = store.display(),
        initial = long(400),
        cap = long(2_000),
        within = long(3_000),
        open = long(1_200),
        open_most = long(2_000),
        ramp = long(600),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 8, demo: every act has its turn in a show of any length, and orders come until shortly before the end.
    #[test]
    fn every_act_has_its_turn() {
        for seconds in [2, 20, 30] {
            let lasts = Duration::from_secs(seconds);
            let pace = Pace::of(lasts);
            let mut played: Vec<usize> = (0..1000).map(|part| pace.act(lasts * part / 1000)).collect();
            played.dedup();
            assert_eq!(played, (0..ACTS.len()).collect::<Vec<_>>());
            assert_eq!(pace.orders(Duration::ZERO), 0);
            assert_eq!(pace.orders(lasts.mul_f64(0.999)), 147);
        }
        assert_eq!(
            Pace::of(Duration::from_mins(1)).act(Duration::from_secs(31)),
            ACTS.len(),
            "a second round"
        );
    }

    /// Issue 8, demo: the show's configuration is one that any file could have.
    #[test]
    fn the_configuration_loads() {
        let at = "127.0.0.1:4000".parse().unwrap();
        for seconds in [2, 20] {
            let text = configuration(at, Path::new("/tmp/x.db"), Pace::of(Duration::from_secs(seconds)));
            let config = redrive_policy::Config::parse(&text, redrive_policy::Format::Toml, "demo").unwrap();
            assert!(config.policy("demo").is_some(), "{text}");
            assert_eq!(config.warnings, Vec::new());
        }
        assert!(order(11).contains("\"card\":\"\"") && !order(12).contains("\"card\":\"\""));
    }
}
