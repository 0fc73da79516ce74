//! A letter beside the model, which keeps the group of all the others where it is: it has regressed, and something of it is always dead.
//! So no event tells of the group, when no step of the model does.

use redrive_policy::Cause;
use redrive_store::{GroupState, ImportedLetter, LetterReason, NewJob, Store};

use crate::given::at;
use crate::reference::Reference;

pub(crate) const KIND: &str = "anchor";
/// What every death of the model shares.
const GROUP: &str = "print of it died";
/// Later than everything, so that it never grows old.
const LATE: i64 = 1 << 40;

/// Takes the letter in, and says where its group stands; the model knows of both events.
pub(crate) async fn put(store: &dyn Store, model: &mut Reference) {
    let letter = ImportedLetter {
        event_id: "anchor".to_owned(),
        job: NewJob::new(KIND, ""),
        died_at: at(LATE),
        reason: LetterReason::Exhausted,
        cause: Cause::Unknown,
        retryable: false,
        rule: "test".to_owned(),
        fingerprint: GROUP.to_owned(),
        error_type: "TestError".to_owned(),
        error_message: "it died".to_owned(),
        attempts: 1,
        retries: 0,
        max_retries: 0,
        redrives: 0,
        context: serde_json::json!({}),
        report: serde_json::json!({}),
    };
    let id = store.import_letters(at(model.now), vec![letter]).await.unwrap()[0].id;
    let group = store.set_group_state(at(model.now), GROUP.to_owned(), GroupState::Regressed, None).await;
    assert_eq!(group.unwrap().unwrap().counts.letters, 1);
    model.anchor = Some(id);
    model.stream.extend([(Some(id), model.now, false), (None, model.now, false)]);
}
