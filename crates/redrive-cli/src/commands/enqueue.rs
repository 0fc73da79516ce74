//! `enqueue`: a job for the workers. Its id is the answer.

use std::ffi::OsString;
use std::io::Read;

use redrive::engine::{ALERT_KIND, ALERT_QUEUE};
use redrive::{CommandSpec, HttpSpec, current_umask};
use redrive_policy::Config;
use redrive_store::{MAX_PAYLOAD_BYTES, NewJob, Refusal, StoreError, Trouble as StoreTrouble};

use super::opened;
use crate::Stage;
use crate::args::{EnqueueArgs, WorkFlags};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::enqueued::EnqueuedView;

/// The kinds that the command line can run.
pub(super) const EXEC: &str = "exec";
pub(super) const HTTP: &str = "http";

pub(super) fn run(args: &EnqueueArgs, stage: &mut Stage<'_>) -> Result<EnqueuedView, Trouble> {
    let config = stage.settings.config()?;
    let job = work(&args.work, &config, stage)?;
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    let job = NewJob {
        run_at: args.delay.map(|delay| engine.now().after(delay)),
        unique_key: args.unique.clone(),
        caller_id: args.caller_id.clone(),
        ..job
    };
    let enqueued = opened.runtime.block_on(engine.enqueue(job))?;
    opened.wait(opened.store.close())?;
    Ok(EnqueuedView::new(enqueued))
}

/// The job that these flags mean.
pub(super) fn work(flags: &WorkFlags, config: &Config, stage: &mut Stage<'_>) -> Result<NewJob, Trouble> {
    if flags.policy.is_some() {
        // A name that nobody has defined is refused where somebody can still correct it.
        stage.settings.policy(config, flags.policy.as_deref())?;
    }
    let (kind, payload) = kind_and_payload(flags, stage)?;
    if flags.queue.as_deref() == Some(ALERT_QUEUE) || kind == ALERT_KIND {
        // As over the API: nobody but redrive writes to people in its name.
        let message =
            text(stage.settings.lang, "usage.alerts-own", &[("queue", &ALERT_QUEUE), ("kind", &ALERT_KIND)]);
        return Err(Trouble::Usage {
            message,
            hint: Some(say(stage.settings.lang, "usage.alerts-own-hint")),
        });
    }
    Ok(NewJob {
        queue: flags.queue.clone().unwrap_or_default(),
        priority: flags.priority.unwrap_or(0),
        target: flags.target.clone(),
        policy: flags.policy.clone(),
        timeout: flags.timeout,
        ..NewJob::new(kind, payload)
    })
}

/// What kind of work, and its payload, in one of three ways.
fn kind_and_payload(args: &WorkFlags, stage: &mut Stage<'_>) -> Result<(String, Vec<u8>), Trouble> {
    if let Some(payload) = args.payload.as_deref() {
        // Looked at and not touched: a handler gets what was typed, byte for byte.
        serde_json::from_str::<serde::de::IgnoredAny>(payload).map_err(Trouble::BadPayload)?;
        return Ok((args.kind.clone().unwrap_or_default(), payload.as_bytes().to_vec()));
    }
    if !args.exec.is_empty() {
        return Ok((EXEC.to_owned(), command(&args.exec, stage)?.to_payload()));
    }
    let [method, url] = &args.http[..] else {
        // clap takes two values or none.
        return Ok((HTTP.to_owned(), Vec::new()));
    };
    let spec = HttpSpec {
        headers: args.header.iter().map(|header| (header.name.clone(), header.value.clone())).collect(),
        body: args.body.as_deref().map(|body| read_body(body, stage)).transpose()?,
        ..HttpSpec::new(method.to_uppercase(), url)
    };
    // What cannot be sent now cannot be sent later.
    spec.validate().map_err(Trouble::BadCall)?;
    Ok((HTTP.to_owned(), spec.to_payload()))
}

/// A command as it stands here: its arguments, the directory, the umask.
pub(super) fn command(argv: &[OsString], stage: &Stage<'_>) -> Result<CommandSpec, Trouble> {
    if argv.first().is_none_or(|program| program.is_empty()) {
        return Err(Trouble::NoCommand);
    }
    if stage.cwd.as_os_str().is_empty() {
        return Err(Trouble::NoDirectory);
    }
    Ok(CommandSpec { cwd: Some(stage.cwd.clone()), umask: current_umask(), ..CommandSpec::new(argv) })
}

/// The body of a call: the text itself, a file's, or all of stdin.
pub(super) fn read_body(body: &str, stage: &mut Stage<'_>) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_PAYLOAD_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    if body == "-" {
        (&mut *stage.stdin).take(limit).read_to_end(&mut bytes).map_err(Trouble::Input)?;
    } else if let Some(file) = body.strip_prefix('@') {
        let path = stage.cwd.join(file);
        let unreadable = |source| Trouble::Unreadable { path: file.into(), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        bytes.extend_from_slice(body.as_bytes());
    }
    if bytes.len() > MAX_PAYLOAD_BYTES {
        let refusal = Refusal::PayloadTooLarge { bytes: bytes.len(), most: MAX_PAYLOAD_BYTES };
        return Err(StoreError::from(StoreTrouble::Refused(refusal)).into());
    }
    Ok(bytes)
}
