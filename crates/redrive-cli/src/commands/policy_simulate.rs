//! `policy simulate`: what other policies would have made of the failures of a period.

use std::collections::BTreeSet;

use redrive::engine::{Candidate, Simulate, Simulation};
use redrive_policy::{Config, Policy};
use redrive_store::Timestamp;

use super::{opened, policy_warning};
use crate::Stage;
use crate::args::{SimulateArgs, Since};
use crate::settings::{format_of, read_config_text};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::simulation::SimulationView;

pub(super) fn run(args: &SimulateArgs, stage: &mut Stage<'_>) -> Result<SimulationView, Trouble> {
    let config = stage.settings.config()?;
    let candidates = candidates(args, &config, stage)?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let wanted = Simulate {
        since: moment(args.since, opened.now),
        until: args.until.map_or(opened.now.after(A_MOMENT), |until| moment(until, opened.now)),
        now: opened.now,
        queue: args.queue.clone(),
        kind: args.kind.clone(),
        cause: args.cause,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
        seed: args.seed,
        candidates,
    };
    let simulation = opened.runtime.block_on(engine.simulate(&wanted))?;
    if simulation.recorded.jobs == 0 && simulation.without_beginning == 0 {
        return Err(Trouble::NothingRecorded { store: opened.store.location() });
    }
    warn(&simulation, stage);
    Ok(SimulationView::new(simulation, &wanted))
}

/// What fails in this very millisecond has failed before now.
const A_MOMENT: std::time::Duration = std::time::Duration::from_millis(1);

fn moment(since: Since, now: Timestamp) -> Timestamp {
    match since {
        Since::Ago(length) => now.before(length),
        Since::At(at) => at,
    }
}

/// One for each policy that is named; else one in which every job keeps its own, as it is today or in the file.
fn candidates(
    args: &SimulateArgs,
    config: &Config,
    stage: &mut Stage<'_>,
) -> Result<Vec<Candidate>, Trouble> {
    let wish = args.changes.wish();
    let lang = stage.settings.lang;
    let file = match &args.file {
        None => None,
        Some(path) => {
            let contents = read_config_text(&stage.cwd.join(path))
                .map_err(|source| Trouble::Unreadable { path: path.clone(), source })?;
            let name = path.display().to_string();
            let parsed = Config::parse(&contents, format_of(path, &contents), &name);
            Some((name, parsed.map_err(Trouble::BrokenConfig)?))
        }
    };
    let policies = file.as_ref().map_or(config, |(_, config)| config);
    let changed = |label: String| {
        if wish.is_empty() { label } else { text(lang, "simulation.changed", &[("label", &label)]) }
    };
    if args.policy.is_empty() {
        let label = file.as_ref().map_or_else(|| say(lang, "simulation.own"), |(name, _)| name.clone());
        let label = changed(label);
        return Ok(vec![Candidate { label, config: file.map(|(_, config)| config), policy: None, wish }]);
    }
    let mut candidates = Vec::with_capacity(args.policy.len());
    let mut said = BTreeSet::new();
    for name in &args.policy {
        let policy: Policy = stage.settings.policy(policies, Some(name))?.with_override(&wish);
        for warning in policy.warnings() {
            let message = policy_warning(&warning, lang);
            // Several policies, and several causes of one, are odd in the same way.
            if said.insert(message.clone()) {
                stage.talk.warning(&message);
            }
        }
        candidates.push(Candidate {
            label: changed(name.clone()),
            config: file.as_ref().map(|(_, config)| config.clone()),
            policy: Some(name.clone()),
            wish: wish.clone(),
        });
    }
    Ok(candidates)
}

/// What makes the answer less than it was asked for.
fn warn(simulation: &Simulation, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let mut warn = |key: &str, n: u64| {
        if n > 0 {
            let message = text(lang, key, &[("n", &n)]);
            stage.talk.warning(&message);
        }
    };
    warn("simulation.beyond-limit", simulation.beyond_limit);
    warn("simulation.without-beginning", simulation.without_beginning);
    let unexplained = simulation.simulated.iter().map(|one| one.tally.unexplained).max().unwrap_or(0);
    warn("simulation.unexplained", unexplained);
}
