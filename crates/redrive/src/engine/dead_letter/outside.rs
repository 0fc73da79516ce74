//! What comes in through the API, as far as it may: its jobs do no more than others from there, whatever a line says, and what redrive
//! itself writes down is not made up outside.

use redrive_store::{NewEvent, NewJob, Origin};

#[cfg(feature = "alerts")]
use crate::engine::{ALERT_KIND, ALERT_QUEUE};

/// By which an event is known that was not written here.
const IMPORTED: &str = "imported";

/// Whether events of this type are what redrive writes down about those who operate it, and about itself.
fn is_own_record(event_type: &str) -> bool {
    ["operator_", "config_", "token_", "letter_", "queue_", "redrive_"]
        .iter()
        .any(|ours| event_type.starts_with(ours))
        || [
            "alert_template_broken",
            "clock_jumped",
            "manual_retry",
            "payload_edited",
            "push_disabled",
            "redrive",
            "schedule_missed",
            "store_went_back",
        ]
        .contains(&event_type)
}

/// Whether a person can tell this name from every other: it holds no sign that is not seen, or that turns what follows around, and no
/// blank at its ends.
///
/// ```
/// use redrive::engine::is_readable_name;
/// assert!(is_readable_name("請求 2026") && !is_readable_name("mail\u{200b}") && !is_readable_name(" mail"));
/// ```
pub fn is_readable_name(name: &str) -> bool {
    let is_invisible = |sign: char| {
        matches!(sign,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    !name.contains(is_invisible) && name.trim() == name
}

/// A letter from outside.
pub(super) fn letter(job: &mut NewJob) -> Result<(), String> {
    #[cfg(feature = "alerts")]
    if job.kind == ALERT_KIND || job.queue() == ALERT_QUEUE {
        // They are our own: nobody outside makes them up.
        return Err("messages of alerts do not come in through the API".to_owned());
    }
    if !is_readable_name(job.queue()) {
        return Err("the queue's name holds signs that nobody sees".to_owned());
    }
    job.origin = Origin::Api;
    Ok(())
}

/// What is no letter, and is kept as an event.
pub(super) fn event(event: &mut NewEvent) -> Result<(), String> {
    let event_type = &event.event_type;
    if is_own_record(event_type) {
        return Err(format!("{event_type} is redrive's own record, and does not come in through the API"));
    }
    if !event.tags.iter().any(|tag| tag == IMPORTED) {
        event.tags.push(IMPORTED.to_owned());
    }
    Ok(())
}
