//! `simulate`: the failures of a period under other policies, and what would have differed.
//!
//! The stream is read once, page by page (`read.rs`); each job that failed becomes a record (`story.rs`), and everything
//! that was seen of its lane tells about its target. The replay itself is pure and lives in `redrive_policy::simulate`.

mod read;
mod story;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use redrive_policy::simulate::{Ending, Ruling, Tally, World, recorded, replay};
use redrive_policy::{Cause, Config, Override};
use redrive_store::{JobId, Timestamp};

use super::overrides::JobOverrides;
use super::policies::{Named, Policies};
use super::{Engine, EngineError};
use read::Record;
use story::Story;

/// How many of the jobs that end otherwise are named.
const NAMED: usize = 10;

/// Which failures are replayed, and under what.
#[derive(Debug, Clone)]
pub struct Simulate {
    /// Jobs that failed at this time or later …
    pub since: Timestamp,
    /// … and before this.
    pub until: Timestamp,
    /// What the clock shows: nothing is known of what lies behind.
    pub now: Timestamp,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only those that failed of this cause at least once.
    pub cause: Option<Cause>,
    /// No more jobs than this.
    pub limit: usize,
    /// What other delays are drawn with.
    pub seed: u64,
    /// The policies to try.
    pub candidates: Vec<Candidate>,
}

/// A policy, or a set of them, to try on what was recorded.
#[derive(Debug, Clone, Default)]
pub struct Candidate {
    /// What it is called.
    pub label: String,
    /// The policies that there are; absent: the engine's.
    pub config: Option<Config>,
    /// The policy for every job; absent: each job's own, by name.
    pub policy: Option<String>,
    /// What is different about it. It beats what the jobs themselves override.
    pub wish: Override,
}

/// What came of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Simulation {
    /// What is recorded.
    pub recorded: Tally,
    /// What each candidate would have made of it.
    pub simulated: Vec<Simulated>,
    /// The policies that decided in the record.
    pub policies: BTreeSet<String>,
    /// Jobs beyond the limit.
    pub beyond_limit: u64,
    /// Jobs whose story no longer begins in the store.
    pub without_beginning: u64,
    /// Jobs that people acted on.
    pub acted_on: u64,
}

/// What one candidate would have made of the record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Simulated {
    /// What the candidate is called.
    pub label: String,
    /// What the jobs come to.
    pub tally: Tally,
    /// How many jobs go another way than recorded: other attempts, another time, another end.
    pub departing: u64,
    /// How many jobs end otherwise than recorded.
    pub differing: u64,
    /// Some of them: the worst for the candidate first.
    pub differences: Vec<Difference>,
    /// Policies of jobs that the candidate does not have; its default stands in.
    pub missing: BTreeSet<String>,
}

/// A job that ends otherwise.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The job.
    pub job: JobId,
    /// What it failed of first.
    pub cause: Cause,
    /// How it ended.
    pub recorded: Ending,
    /// How it would have ended.
    pub simulated: Ending,
    /// How many attempts it had.
    pub recorded_attempts: usize,
    /// How many it would have had, at most.
    pub simulated_attempts: usize,
    /// Whether that rests on attempts that never were.
    pub estimated: bool,
}

impl Engine {
    /// What other policies would have made of the failures of a period. Attempts that were never made are estimated from
    /// what was seen of the same lane, and counted as estimates; the same policy gives the record back.
    ///
    /// ```no_run
    /// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
    /// use redrive::engine::{Candidate, Simulate};
    /// use std::time::Duration;
    ///
    /// let patient = Candidate { label: "patient".into(), policy: Some("patient".into()), ..Candidate::default() };
    /// let simulation = engine
    ///     .simulate(&Simulate {
    ///         since: engine.now().before(Duration::from_secs(3600)),
    ///         until: engine.now(),
    ///         now: engine.now(),
    ///         queue: None,
    ///         kind: None,
    ///         cause: None,
    ///         limit: 100_000,
    ///         seed: 1,
    ///         candidates: vec![patient],
    ///     })
    ///     .await?;
    /// println!("{} lost instead of {}", simulation.simulated[0].tally.lost, simulation.recorded.lost);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn simulate(&self, wanted: &Simulate) -> Result<Simulation, EngineError> {
        // A candidate that does not exist is told before anything is read.
        let mut benches = Vec::with_capacity(wanted.candidates.len());
        for candidate in &wanted.candidates {
            benches.push(Bench::new(candidate, self.policies(), wanted.seed)?);
        }
        let record = read::record(self, wanted).await?;
        let today = self.policies();
        let mut own = Cache::default();
        let mut tally = record.base();
        let mut policies = BTreeSet::new();
        let mut acted_on = 0;
        for story in &record.stories {
            let before = recorded(&story.job);
            tally.add(&before, story.cause);
            acted_on += u64::from(!story.job.facts.is_empty());
            policies.extend(story.policies.iter().map(ToString::to_string));
            let today = own.get(story, &today, None, &Override::default());
            for bench in &mut benches {
                bench.try_on(story, &before, &today.named, &record);
            }
        }
        tally.finish();
        Ok(Simulation {
            recorded: tally,
            simulated: benches.into_iter().map(|bench| bench.finish(&record)).collect(),
            policies,
            beyond_limit: record.beyond_limit,
            without_beginning: record.without_beginning,
            acted_on,
        })
    }
}

/// A candidate at work.
struct Bench<'a> {
    candidate: &'a Candidate,
    policies: Arc<Policies>,
    cache: Cache,
    seed: u64,
    tally: Tally,
    departing: u64,
    differences: Vec<Difference>,
    missing: BTreeSet<String>,
}

impl<'a> Bench<'a> {
    fn new(candidate: &'a Candidate, own: Arc<Policies>, seed: u64) -> Result<Bench<'a>, EngineError> {
        let policies = match &candidate.config {
            Some(config) => {
                Arc::new(Policies::new(Some(config), Vec::new(), Some(own.default_name().to_owned()))?)
            }
            None => own,
        };
        policies.named(candidate.policy.as_deref())?;
        Ok(Bench {
            candidate,
            policies,
            cache: Cache::default(),
            seed,
            tally: Tally::default(),
            departing: 0,
            differences: Vec::new(),
            missing: BTreeSet::new(),
        })
    }

    fn try_on(
        &mut self,
        story: &Story,
        before: &redrive_policy::simulate::Replayed,
        today: &Named,
        record: &Record,
    ) {
        let Candidate { policy, wish, .. } = self.candidate;
        let ruled = self.cache.get(story, &self.policies, policy.as_deref(), wish);
        if ruled.stands_in {
            self.missing.insert(story.policy.to_string());
        }
        let ruling = Ruling {
            policy: &ruled.named.policy,
            version: &ruled.named.version,
            today: Some((&today.policy, &today.version)),
        };
        let world = World { targets: &record.targets, ends_at: record.ends_at };
        let after = replay(&story.job, &ruling, &world, self.seed);
        self.tally.add(&after, story.cause);
        self.departing += u64::from(after != *before);
        if !after.ending.is_like(before.ending) {
            self.differences.push(Difference {
                job: story.id,
                cause: story.cause,
                recorded: before.ending,
                simulated: after.ending,
                recorded_attempts: before.attempts.len(),
                simulated_attempts: after.attempts.len(),
                estimated: !after.is_observed(),
            });
        }
    }

    fn finish(mut self, record: &Record) -> Simulated {
        for (minute, attempts) in &record.base_load {
            self.tally.begin_in(*minute, *attempts);
        }
        self.tally.finish();
        let differing = self.differences.len() as u64;
        self.differences.sort_by_key(|one| (harm(one), one.job.0));
        self.differences.truncate(NAMED);
        Simulated {
            label: self.candidate.label.clone(),
            tally: self.tally,
            departing: self.departing,
            differing,
            differences: self.differences,
            missing: self.missing,
        }
    }
}

/// How bad a difference is for the candidate; the smaller, the worse.
fn harm(difference: &Difference) -> u8 {
    match (difference.recorded, difference.simulated) {
        (Ending::Recovered(_), Ending::Lost(_)) => 0,
        (Ending::Recovered(_), _) => 1,
        (Ending::Lost(_), Ending::Recovered(_)) => 2,
        _ => 3,
    }
}

/// The policy that a story is ruled by.
#[derive(Debug)]
struct Ruled {
    named: Named,
    /// The story's own is not there.
    stands_in: bool,
}

/// Which policy a story names, and what its job overrides.
type NamedBy = (Arc<str>, Option<Arc<str>>);

/// Policies with what jobs override, each worked out once.
#[derive(Debug, Default)]
struct Cache(HashMap<NamedBy, Arc<Ruled>>);

impl Cache {
    fn get(
        &mut self,
        story: &Story,
        policies: &Policies,
        policy: Option<&str>,
        wish: &Override,
    ) -> Arc<Ruled> {
        let key = (Arc::clone(&story.policy), story.overrides.clone());
        let ruled = self.0.entry(key).or_insert_with(|| {
            let named = policies.named(Some(policy.unwrap_or(&story.policy)));
            let stands_in = named.is_err();
            let named = named.unwrap_or_else(|_| policies.default_named());
            let overrides = story.overrides.as_deref().and_then(|text| JobOverrides::parse(text).ok());
            let named = match overrides {
                None if wish.is_empty() => named.clone(),
                None => Named::new(named.policy.with_override(wish)),
                Some(own) => Named::new(own.apply_to(&named.policy).with_override(wish)),
            };
            Arc::new(Ruled { named, stands_in })
        });
        Arc::clone(ruled)
    }
}
