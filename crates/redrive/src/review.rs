//! Review of what a command produced (R-T4): the files it claims are looked up, and Q7 to Q9 are run.
//!
//! Judging is [`redrive_policy::review`]'s; here is what it cannot do itself. Looking never hangs and never reads what lies
//! outside of where the work ran: only regular files are read, and of each only the beginning.

mod captured;
mod look;

use std::path::Path;
use std::time::Duration;

use redrive_policy::review::{
    CheckRun, Claim, Criterion, FileSeen, Judgment, Material, ReviewError, ReviewPlan,
};

pub use captured::Captured;

use crate::exec::{CommandSpec, Wiring, run_command};
use crate::outcome::{Executed, Outcome};
use crate::surroundings::Surroundings;

/// How much of an output is reviewed; one that is longer is rejected for it.
pub const REVIEW_BOUND: usize = 8 * 1024 * 1024;
/// How much of a file is reviewed.
pub const FILE_BOUND: u64 = 1024 * 1024;
/// How long a command of Q7 to Q9 may take.
pub const CHECK_LIMIT: Duration = Duration::from_mins(10);

/// Why a review came to no judgment.
#[derive(Debug, thiserror::Error)]
pub enum ReviewTrouble {
    /// The plan has a pattern that cannot be used.
    #[error(transparent)]
    Pattern(#[from] ReviewError),
    /// There is no directory in which the work could have run.
    #[error("the directory {} cannot be looked into", path.display())]
    Directory {
        /// Which.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Somebody stopped it while a command ran.
    #[error("the review was cancelled: {0}")]
    Cancelled(String),
    /// The look at the files came to no end of its own.
    #[error("looking the files up failed")]
    Look(#[source] tokio::task::JoinError),
}

/// What is reviewed, and where it came about.
#[derive(Debug, Clone, Copy)]
pub struct Reviewed<'a> {
    /// What was written to stdout, from its beginning.
    pub output: &'a [u8],
    /// How much was written.
    pub total_bytes: u64,
    /// The name of the file whose content this is; nothing for what a command said.
    pub name: Option<&'a str>,
    /// Where the work ran: files are looked for from here.
    pub cwd: &'a Path,
    /// How many files have changed since it began, when a snapshot tells.
    pub changed_files: Option<usize>,
}

/// Reviews an output: claimed and expected files are looked up, and when nothing is wrong the commands of Q7 to Q9 are run.
///
/// ```
/// use redrive::review::{Reviewed, review_output};
/// use redrive::{Cause, Surroundings};
/// use redrive_policy::review::ReviewPlan;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let cwd = std::env::temp_dir();
/// let output = b"Created `src/never_written.rs`.";
/// let reviewed =
///     Reviewed { output, total_bytes: output.len() as u64, name: None, cwd: &cwd, changed_files: None };
/// let judgment = review_output(&ReviewPlan::default(), reviewed, &Surroundings::new("job_01", 1)).await.unwrap();
/// assert_eq!(judgment.cause(), Some(Cause::Quality));
/// # });
/// ```
pub async fn review_output(
    plan: &ReviewPlan,
    work: Reviewed<'_>,
    around: &Surroundings,
) -> Result<Judgment, ReviewTrouble> {
    let reviewer = plan.reviewer()?;
    let mut material = Material {
        output: work.output,
        total_bytes: work.total_bytes,
        name: work.name,
        changed_files: work.changed_files,
        ..Material::default()
    };
    let files = look_up(plan, reviewer.claims(&material), work.cwd).await?;
    material.files = &files;
    let judgment = reviewer.review(&material);
    if !judgment.passed() {
        return Ok(judgment);
    }
    let checks = run_checks(plan, work.cwd, around).await?;
    if checks.iter().all(|run| run.ok) {
        return Ok(judgment);
    }
    material.checks = &checks;
    Ok(reviewer.review(&material))
}

/// What is there of the files that the plan expects and the output claims.
async fn look_up(plan: &ReviewPlan, claims: Vec<Claim>, cwd: &Path) -> Result<Vec<FileSeen>, ReviewTrouble> {
    let mut files: Vec<FileSeen> = plan.files.iter().map(|path| FileSeen::expected(path)).collect();
    for claim in &claims {
        match files.iter_mut().find(|file| file.path == claim.path) {
            Some(known) => known.created |= claim.created,
            None => files.push(FileSeen::claimed(claim)),
        }
    }
    if files.is_empty() {
        return Ok(files);
    }
    let cwd = cwd.to_owned();
    let looked = tokio::task::spawn_blocking(move || {
        let place =
            look::Place::new(&cwd).map_err(|source| ReviewTrouble::Directory { path: cwd, source })?;
        for file in &mut files {
            place.look_at(file);
        }
        Ok(files)
    });
    looked.await.map_err(ReviewTrouble::Look)?
}

/// Runs the commands of Q7 to Q9, in this order, up to the first that fails.
pub async fn run_checks(
    plan: &ReviewPlan,
    cwd: &Path,
    around: &Surroundings,
) -> Result<Vec<CheckRun>, ReviewTrouble> {
    let mut runs = Vec::new();
    for (criterion, argv) in
        [(Criterion::Q7, &plan.test), (Criterion::Q8, &plan.lint), (Criterion::Q9, &plan.types)]
    {
        let Some(argv) = argv else { continue };
        let spec = CommandSpec { cwd: Some(cwd.to_owned()), ..CommandSpec::new(argv) };
        let around = Surroundings { timeout: Some(CHECK_LIMIT), after_a_crash: false, ..around.clone() };
        let executed = run_command(&spec, &around, Wiring::captured()).await;
        if let Outcome::Cancelled(why) = &executed.outcome {
            return Err(ReviewTrouble::Cancelled(why.clone()));
        }
        let ok = executed.outcome == Outcome::Succeeded;
        runs.push(CheckRun { criterion, ok, tail: if ok { String::new() } else { said(&executed) } });
        if !ok {
            break;
        }
    }
    Ok(runs)
}

/// What a command that failed had to say: on stdout, on stderr, or why it did not run.
fn said(executed: &Executed) -> String {
    let written = [&executed.stdout_tail, &executed.stderr_tail].into_iter().flatten().cloned();
    let written: Vec<String> = written.filter(|tail| !tail.trim().is_empty()).collect();
    match &executed.outcome {
        Outcome::Failed(evidence) if written.is_empty() => evidence.summary(),
        _ => written.join("\n"),
    }
}
