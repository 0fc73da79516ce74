//! `policy delays`: the waits before each retry, computed exactly as a running job would get them.

use std::time::Duration;

use redrive_policy::{Backoff, Curve, CurveKind, Failure, Rng};

use crate::Stage;
use crate::args::{DelaysArgs, PolicyFlags};
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::Bar;
use crate::view::backoff::range;
use crate::view::delays::{DelaysView, Retries, add};
use crate::view::policy::retries;

pub(super) fn run(args: &DelaysArgs, stage: &mut Stage<'_>) -> Result<DelaysView, Trouble> {
    let flags = &args.flags;
    let (backoff, policy) = if flags.policy.is_none() && flags.changes.backoff.is_some() {
        // A curve of one's own starts from 1 s, doubling, capped at 300 s, and nothing of any policy.
        let bare = Backoff::new(Curve::exponential(Duration::from_secs(1)));
        (flags.wish().apply_to(&bare), None)
    } else {
        let config = stage.settings.config()?;
        let policy = stage.settings.policy(&config, flags.policy.as_deref())?;
        let policy = policy.with_override(&flags.wish());
        // Without a cause: the delays of whatever has no entry of its own.
        let failure = args.cause.map(Failure::of);
        let backoff = failure.as_ref().map_or(&policy.backoff, |failure| policy.backoff_for(failure));
        let max = failure.as_ref().map_or(retries(&policy).1, |failure| policy.max_retries_for(failure));
        match args.cause.filter(|cause| !policy.retry_on.contains(*cause)) {
            Some(cause) => {
                let names: [(&str, &dyn std::fmt::Display); 2] =
                    [("policy", &policy.name), ("cause", &cause.name())];
                stage.talk.note(&text(stage.settings.lang, "note.cause-not-retried", &names));
                (backoff.clone(), Some((policy.name.clone(), Retries::Never)))
            }
            None => (backoff.clone(), Some((policy.name.clone(), Retries::UpTo(max)))),
        }
    };
    warn(&backoff, flags, stage);
    let seed = args.seed.unwrap_or_else(|| stage.entropy());
    Ok(DelaysView { bars: bars(&backoff, args.count, seed), backoff, policy })
}

/// The first `count` delays of a curve.
fn bars(backoff: &Backoff, count: u32, seed: u64) -> Vec<Bar> {
    let mut rng = Rng::seeded(seed);
    let mut previous = None;
    let mut total = Duration::ZERO;
    (0..count)
        .map(|n| {
            let (low, high) = range(backoff, n, previous);
            let delay = backoff.delay(n, previous, &mut rng).wait;
            previous = Some(delay);
            total = add(total, delay);
            Bar { number: n + 1, delay, low, high, total }
        })
        .collect()
}

/// Says what has no effect, or not the one that was probably meant.
fn warn(backoff: &Backoff, flags: &PolicyFlags, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    if backoff.starts_above_cap() {
        let cap = redrive_policy::human_duration(backoff.cap);
        stage.talk.warning(&text(lang, "warning.initial-above-cap", &[("cap", &cap)]));
    }
    let curve = backoff.curve.name().to_owned();
    let idle = [
        ("--multiplier", flags.changes.multiplier.is_some(), CurveKind::Exponential),
        ("--increment", flags.changes.increment.is_some(), CurveKind::Linear),
    ];
    for (flag, given, of) in idle {
        if given && curve != of.name() {
            let message = text(lang, "warning.no-effect", &[("flag", &flag), ("curve", &curve)]);
            stage.talk.warning(&message);
        }
    }
}
