//! `policy explain`: what a policy decides about one failure at one retry count, and why.

use std::time::Duration;

use redrive_policy::{Cause, Decision, Failure, History, LongRetryAfter, Policy, Report, Rng, decide};

use super::{policy_warning, retry_after};
use crate::Stage;
use crate::args::ExplainArgs;
use crate::trouble::Trouble;
use crate::view::backoff::range;
use crate::view::decision::{DecisionView, Rung};

/// A ladder longer than this is cut: nobody reads four billion rungs.
const MAX_RUNGS: u32 = 20;

pub(super) fn run(args: &ExplainArgs, stage: &mut Stage<'_>) -> Result<DecisionView, Trouble> {
    let config = stage.settings.config()?;
    let policy = stage.settings.policy(&config, args.flags.policy.as_deref())?;
    let policy = policy.with_override(&args.flags.wish());
    for warning in policy.warnings() {
        let message = policy_warning(&warning, stage.settings.lang);
        stage.talk.warning(&message);
    }
    let wait = retry_after(args.evidence.retry_after.as_deref(), stage);
    let report = report(args, wait);
    let failure = match args.cause {
        Some(cause) => Failure {
            http_status: report.http_status,
            code: report.code.as_deref().and_then(redrive_policy::Code::new),
            retry_after: wait,
            ..Failure::of(cause)
        },
        None if args.evidence.is_empty() && args.text.is_none() => return Err(Trouble::NoEvidence),
        None => config.classifier().classify(&report),
    };
    let mut rng = Rng::seeded(args.seed.unwrap_or_else(|| stage.entropy()));
    let decision = decide(&policy, &failure, &history(&failure, args.retry_count), &mut rng);
    let rungs = decision.max_retries.saturating_add(1).min(MAX_RUNGS);
    let (ladder, left_out) = if decision.max_retries == 0 {
        (Vec::new(), 0)
    } else {
        (ladder(&policy, &failure, rungs), decision.max_retries.saturating_add(1) - rungs)
    };
    let record = decision.record(stage.settings.lang);
    let found_by = args.cause.is_none().then_some(failure.rule);
    Ok(DecisionView { record, ladder, found_by, left_out })
}

fn report(args: &ExplainArgs, wait: Option<Duration>) -> Report<'_> {
    let mut report = match &args.text {
        Some(text) => Report::text(text.to_string_lossy()),
        None => Report::default(),
    };
    report.http_status = args.evidence.http_status;
    report.exit_code = args.evidence.exit_code;
    report.code = args.evidence.code.as_deref().map(Into::into);
    report.retry_after = wait;
    report
}

/// So many retries so far; crashes are counted apart.
pub(super) fn history(failure: &Failure, retry_count: u32) -> History {
    match failure.cause {
        Cause::Crashed => History { crash_count: retry_count, ..History::default() },
        _ => History::retries(retry_count),
    }
}

/// What would be decided at each retry count from 0.
fn ladder(policy: &Policy, failure: &Failure, rungs: u32) -> Vec<Rung> {
    let backoff = policy.backoff_for(failure);
    let mut total = Duration::ZERO;
    (0..rungs)
        .map(|n| {
            // The decision does not depend on chance, only its delay does, and that is shown as a range.
            let decision: Decision = decide(policy, failure, &history(failure, n), &mut Rng::seeded(0));
            let wait = decision.is_retry().then(|| match (failure.retry_after, policy.on_long_retry_after) {
                (Some(asked), LongRetryAfter::Clamp) => (asked, asked.min(policy.max_retry_after)),
                (Some(asked), LongRetryAfter::Escalate) => (asked, asked),
                (None, _) => range(backoff, n, (n > 0).then(|| backoff.nominal(n - 1))),
            });
            let wait = wait.map(|(low, high)| (low.min(high), high));
            total = wait.map_or(total, |(_, high)| total.saturating_add(high));
            Rung { retry_count: n, decision: decision.record(redrive_policy::Lang::En).decision, wait, total }
        })
        .collect()
}
