//! What a simulation rests on, in sentences. Only what applies is said.

use redrive::engine::Simulation;
use redrive_policy::Lang;

use crate::text::{say, text};
use crate::view::moment::rough;

pub(super) fn sentences(simulation: &Simulation, seed: u64, lang: Lang) -> Vec<String> {
    let mut said = vec![say(lang, "simulation.assume.observed")];
    let several = simulation.simulated.len() > 1;
    for one in &simulation.simulated {
        let tally = &one.tally;
        let mut say_of = |key: &str, n: u64| {
            if n > 0 {
                let sentence = text(
                    lang,
                    &format!("simulation.assume.{key}"),
                    &[("n", &n), ("gap", &rough(tally.widest_gap)), ("of", &tally.attempts.most)],
                );
                said.push(if several { format!("{}: {sentence}", one.label) } else { sentence });
            }
        };
        let bridged = tally.estimated_attempts - tally.unknown_attempts - tally.carried - tally.permanent;
        say_of("estimated", tally.estimated_attempts);
        say_of("bridged", bridged);
        say_of("carried", tally.carried);
        say_of("permanent", tally.permanent);
        say_of("unknown", tally.unknown_attempts);
        if !one.missing.is_empty() {
            let names = one.missing.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let sentence = text(lang, "simulation.assume.missing", &[("names", &names)]);
            said.push(if several { format!("{}: {sentence}", one.label) } else { sentence });
        }
    }
    if simulation.simulated.iter().any(|one| one.tally.estimated_attempts > 0) {
        said.push(say(lang, "simulation.assume.how"));
        said.push(say(lang, "simulation.assume.same-target"));
        said.push(text(lang, "simulation.assume.seed", &[("seed", &seed)]));
    }
    if simulation.acted_on > 0 {
        said.push(text(lang, "simulation.assume.people", &[("n", &simulation.acted_on)]));
    }
    said
}
