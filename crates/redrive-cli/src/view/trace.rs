//! The trace of a job or a task, a line per entry: `[time] EVENT[iteration]: detail`, with the subtask before the colon.

use redrive::engine::{TraceEntry, TraceEvent};
use serde::Serialize;
use serde_json::Value;

use super::moment::precise;
use super::{Block, Page, Reader, Span, Tone};
use crate::escape::{beginning, cut, escape, width};

/// What a line shows of the detail.
const DETAIL_CHARS: usize = 100;
/// What a line shows of a subtask's name.
const SUBTASK_COLUMNS: usize = 24;

/// JSON: `redrive/trace.v1`. `--raw` writes the entries alone, one per line.
#[derive(Debug, Serialize)]
pub(crate) struct TraceView {
    schema: &'static str,
    task_id: String,
    trace_file: String,
    entries: Vec<TraceEntry>,
    summary: Summary,
    /// The width of the terminal, if there is one; a line is a line there.
    #[serde(skip)]
    columns: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Summary {
    total_iterations: u32,
    final_status: Option<&'static str>,
}

impl TraceView {
    pub(crate) fn new(task_id: String, entries: Vec<TraceEntry>, columns: Option<usize>) -> TraceView {
        let total_iterations = entries.iter().filter_map(|entry| entry.iteration_index).max().unwrap_or(0);
        let ended = entries.iter().rev().find_map(|entry| match entry.event {
            TraceEvent::RetrySuccess => Some("PASS"),
            TraceEvent::EscalateDecision | TraceEvent::EscalateExecuted => Some("ESCALATE"),
            TraceEvent::RetryDecision => Some("RETRY"),
            _ => None,
        });
        TraceView {
            schema: "redrive/trace.v1",
            trace_file: format!("redrive:trace/{task_id}"),
            task_id,
            summary: Summary { total_iterations, final_status: ended },
            entries,
            columns,
        }
    }
}

impl Page for TraceView {
    fn blocks(&self, _: Reader) -> Vec<Block> {
        let line = |entry: &TraceEntry| {
            let iteration = entry.iteration_index.map(|index| format!("[{index}]")).unwrap_or_default();
            let at = format!("[{}] ", precise(entry.timestamp));
            let what = format!("{}{iteration}", entry.event.name());
            // Of a job's own trace everybody knows what it is about.
            let subtask = entry.subtask_id.as_ref().filter(|_| entry.task_id == self.task_id);
            let what = match subtask {
                Some(subtask) => format!("{what} {}", cut(&escape(subtask), SUBTASK_COLUMNS)),
                None => what,
            };
            let detail = format!(": {}", beginning(&detail(entry), DETAIL_CHARS));
            let detail = match self.columns {
                Some(columns) => {
                    cut(&escape(&detail), columns.saturating_sub(width(&at) + width(&what)).max(16))
                }
                None => detail,
            };
            Block::Text(vec![Span::new(at, Tone::Dim), Span::new(what, tone(entry)), Span::plain(detail)])
        };
        self.entries.iter().map(line).collect()
    }
}

fn tone(entry: &TraceEntry) -> Tone {
    let recovered = entry.data["final_status"] == "PASS";
    match entry.event {
        TraceEvent::RetryDecision => Tone::Warn,
        TraceEvent::RetrySuccess | TraceEvent::RecoveryComplete if recovered => Tone::Good,
        TraceEvent::EscalateDecision
        | TraceEvent::EscalateExecuted
        | TraceEvent::RetrySuccess
        | TraceEvent::RecoveryComplete => Tone::Bad,
        TraceEvent::RetryStart | TraceEvent::RecoveryStart | TraceEvent::SnapshotRestore => Tone::Strong,
    }
}

/// What there is to say, in words where somebody wrote some.
fn detail(entry: &TraceEntry) -> String {
    let said = match entry.event {
        TraceEvent::RetryDecision => &entry.data["reasoning"],
        TraceEvent::EscalateDecision => &entry.data["reason"]["description"],
        TraceEvent::EscalateExecuted => &entry.data["user_message"],
        _ => &Value::Null,
    };
    match said.as_str().filter(|said| !said.is_empty()) {
        Some(said) => said.to_owned(),
        None => pairs(&entry.data),
    }
}

/// `name=value`, without what is not said.
fn pairs(data: &Value) -> String {
    let fields = data.as_object().into_iter().flatten();
    let said = fields.filter(|(_, value)| !value.is_null());
    let pairs = said.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    pairs.collect::<Vec<_>>().join(" ")
}
