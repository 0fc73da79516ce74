//! Letting letters go for good: one, those that match, those that are old. Many go only when it was said how many.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use redrive::engine::Discard;
use redrive_policy::{human_duration, parse_duration};
use redrive_store::{JobId, LetterFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::{Why, act};
use crate::body::{Body, MayBody};
use crate::caller::{Caller, Scope};
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::reach;
use crate::route::Route;
use crate::shape;
use crate::shape::letter::SampleLetter;

/// The most letters that go by one request: it has to end some time.
const MOST: u64 = 100_000;
/// How many are shown.
const SHOWN: u32 = 5;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/dead-letters/{id}/discard",
            Scope::Operate,
            "discard_dead_letter",
            "Lets a letter go for good. Its events stay.",
            one,
        )
        .may_take::<Why>()
        .answers::<LetGo>(200, "It went.")
        .problems(&[Code::NotFound]),
        Route::post(
            "/v1/dead-letters/discard",
            Scope::Operate,
            "discard_dead_letters",
            "Lets letters go for good that match. Their events stay.",
            many,
        )
        .takes::<Wish>()
        .answers::<LetGo>(200, "How many there are, and how many went.")
        .problems(&[Code::Conflict]),
        Route::post(
            "/v1/dead-letters/purge",
            Scope::Operate,
            "purge_dead_letters",
            "Lets letters go that have been dead for long. Their events stay.",
            purge,
        )
        .takes::<Old>()
        .answers::<LetGo>(200, "How many there are, and how many went.")
        .problems(&[Code::Conflict]),
    ]
}

/// Which letters go: exactly one of `ids`, `group` and `where`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewDiscard")]
struct Wish {
    /// These.
    #[schemars(with = "Option<Vec<shape::JobId>>", length(min = 1, max = 1000))]
    ids: Option<Vec<String>>,
    /// Those of this group: its fingerprint, or the beginning of it.
    group: Option<String>,
    /// Those that match this filter.
    #[serde(rename = "where")]
    filter: Option<String>,
    /// How many there are: are there others, nothing is done. `dry_run` tells.
    expected: Option<u64>,
    /// Lets nothing go, and tells how many would.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the record.
    why: Option<String>,
}

/// Which old letters go.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Old {
    /// Dead for longer than this: `14d`, `36h`, `90m`.
    older_than: String,
    /// Only those that match this filter, too.
    #[serde(rename = "where")]
    filter: Option<String>,
    /// How many there are: are there others, nothing is done. `dry_run` tells.
    expected: Option<u64>,
    /// Lets nothing go, and tells how many would.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the record.
    why: Option<String>,
}

/// What went, or would.
#[derive(Debug, Serialize, JsonSchema)]
struct LetGo {
    /// How many there were to go.
    matching: u64,
    /// How many went.
    discarded: u64,
    /// Whether nothing was done, only counted.
    dry_run: bool,
    /// The oldest of them.
    sample: Vec<SampleLetter>,
}

async fn one(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    MayBody(body): MayBody<Why>,
) -> Result<Json<LetGo>, Problem> {
    let letter = caller.letter(&server, reach::id(&id)?).await?;
    act(&server, &caller, "letter.discard", letter.id.to_string(), body.why.clone()).await?;
    let which = LetterFilter { ids: Some(vec![letter.id]), ..LetterFilter::default() };
    let engine = server.engine();
    let discarded = engine.discard_letters(which, Discard::ByHand, body.why.as_deref(), |_| {}).await?;
    Ok(Json(LetGo { matching: 1, discarded, dry_run: false, sample: Vec::new() }))
}

async fn many(
    State(server): State<Server>,
    caller: Caller,
    Body(wish): Body<Wish>,
) -> Result<Json<LetGo>, Problem> {
    let given = [wish.ids.is_some(), wish.group.is_some(), wish.filter.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        return Err(Problem::new(Code::Invalid, "letters.which"));
    }
    let ids: Option<Vec<JobId>> = match &wish.ids {
        Some(ids) if ids.len() > server.settings().max_batch => {
            let (count, most) = (ids.len(), server.settings().max_batch);
            let problem = Problem::new(Code::Invalid, "refused.many").with("count", count);
            return Err(problem.with("most", most).at("ids"));
        }
        Some(ids) => Some(ids.iter().map(|id| reach::id(id)).collect::<Result<_, _>>()?),
        None => None,
    };
    let target = match (&wish.group, &wish.filter, &ids) {
        (Some(group), ..) => format!("group={group}"),
        (None, Some(filter), _) => filter.clone(),
        (None, None, ids) => format!("{} ids", ids.as_ref().map_or(0, Vec::len)),
    };
    let asked = super::asked(wish.filter.as_deref(), wish.group.as_deref())?;
    let among = LetterFilter { ids, ..LetterFilter::default() };
    let which = caller.letters(among, asked, server.engine().now());
    let (expected, dry_run) = (wish.expected, wish.dry_run);
    let going = Going { act: "letter.discard", how: Discard::ByHand, target, which, expected, dry_run };
    going.go(&server, &caller, wish.why).await
}

async fn purge(
    State(server): State<Server>,
    caller: Caller,
    Body(old): Body<Old>,
) -> Result<Json<LetGo>, Problem> {
    let older_than = parse_duration(&old.older_than)
        .map_err(|_| Problem::new(Code::Invalid, "json.wants.duration").at("older_than"))?;
    let now = server.engine().now();
    let among = LetterFilter { before: Some(now.before(older_than)), ..LetterFilter::default() };
    let which = caller.letters(among, reach::filter(old.filter.as_deref())?, now);
    let target = format!("older than {}", human_duration(older_than));
    let (expected, dry_run) = (old.expected, old.dry_run);
    let why = old.why.or_else(|| Some(target.clone()));
    let going = Going { act: "letter.purge", how: Discard::ByAge, target, which, expected, dry_run };
    going.go(&server, &caller, why).await
}

/// Letters on their way out.
struct Going {
    act: &'static str,
    how: Discard,
    /// Which they are, for the record.
    target: String,
    which: LetterFilter,
    expected: Option<u64>,
    dry_run: bool,
}

impl Going {
    async fn go(self, server: &Server, caller: &Caller, why: Option<String>) -> Result<Json<LetGo>, Problem> {
        let engine = server.engine();
        // What dies from now on nobody has counted.
        let begun = engine.now().after(Duration::from_millis(1));
        let before = Some(self.which.before.map_or(begun, |before| before.min(begun)));
        let which = LetterFilter { before, ..self.which };
        let matching = engine.store().count_letters(which.clone()).await?;
        let sample = engine.sample_letters(which.clone(), SHOWN).await?;
        let sample = sample.into_iter().map(SampleLetter::from).collect();
        if self.dry_run {
            return Ok(Json(LetGo { matching, discarded: 0, dry_run: true, sample }));
        }
        match self.expected {
            None => return Err(Problem::new(Code::Invalid, "letters.expected").at("expected")),
            Some(expected) if expected != matching => {
                let problem = Problem::new(Code::Conflict, "letters.other_count").at("expected");
                return Err(problem.with("matching", matching).with("expected", expected));
            }
            Some(_) if matching > MOST => {
                let problem = Problem::new(Code::Invalid, "refused.many").with("count", matching);
                return Err(problem.with("most", MOST));
            }
            Some(_) => {}
        }
        act(server, caller, self.act, self.target, why.clone()).await?;
        let discarded = engine.discard_letters(which, self.how, why.as_deref(), |_| {}).await?;
        Ok(Json(LetGo { matching, discarded, dry_run: false, sample }))
    }
}
