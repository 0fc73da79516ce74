//! The log of a process that runs for long: what it says, and what the crates below it trace.
//!
//! A line is text for a person or JSON for a collector. Every value is redacted, and no control character leaves: neither a
//! second line nor a second field can be smuggled in (reliability row 68). On a terminal a long line goes on below its own words,
//! where no line begins. Lines go to a thread of their own, so that a reader
//! who does not read stops nobody; what does not fit is counted, and the count is told.

mod trace;

use std::fmt::{Display, Write as _};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use redrive::redact;
use redrive_store::Timestamp;

use crate::escape::{escape, is_dangerous};
use crate::render::style;
use crate::render::wrap::wrap;
use crate::view::Tone;

pub(crate) use trace::trace_into;

/// The most lines that wait to be written.
const WAITING: usize = 4_096;
/// The most characters of one value.
const VALUE: usize = 4_000;
/// How long the last lines may take.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What a line is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Json,
}

/// How a line looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) shape: Shape,
    pub(crate) colour: bool,
    /// The width of the terminal that it is written to, if it is one.
    pub(crate) columns: Option<usize>,
}

/// The widest label of a level.
const LABEL: usize = "warning".len();
/// A field that a sentence has already said is not said again, from this length on.
const SAID: usize = 4;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// As the rest of the command line says it.
    const fn label(self) -> (&'static str, Tone) {
        match self {
            Level::Debug => ("debug", Tone::Dim),
            Level::Info => ("note", Tone::Dim),
            Level::Warn => ("warning", Tone::Warn),
            Level::Error => ("error", Tone::Bad),
        }
    }
}

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Log {
    look: Look,
    least: Level,
    lines: SyncSender<String>,
    lost: Arc<AtomicU64>,
}

/// Writes the lines; waits for the last ones when it goes.
pub(crate) struct LogWriter {
    thread: Option<JoinHandle<()>>,
}

impl Log {
    /// Begins to write to `out`.
    pub(crate) fn begin(look: Look, least: Level, out: impl Write + Send + 'static) -> (Log, LogWriter) {
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let log = Log { look, least, lines, lost: Arc::clone(&lost) };
        let tell_lost = move |n: u64| line(look, Level::Warn, "lines of the log were lost", &[("lost", &n)]);
        let thread = std::thread::Builder::new()
            .name("redrive-log".to_owned())
            .spawn(move || write_lines(&waiting, out, &lost, &tell_lost))
            // Without a thread nothing is said; the work itself does not depend on it.
            .ok();
        (log, LogWriter { thread })
    }

    pub(crate) fn is_on(&self, level: Level) -> bool {
        level >= self.least
    }

    /// Says something, with what a collector may want to search for.
    pub(crate) fn say(&self, level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
        if !self.is_on(level) {
            return;
        }
        if self.lines.try_send(line(self.look, level, message, fields)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn info(&self, message: &str, fields: &[(&str, &dyn Display)]) {
        self.say(Level::Info, message, fields);
    }

    pub(crate) fn warn(&self, message: &str, fields: &[(&str, &dyn Display)]) {
        self.say(Level::Warn, message, fields);
    }
}

impl LogWriter {
    /// Waits until everything is written, but not for a reader who does not read.
    pub(crate) fn finish(mut self, log: Log) {
        drop(log);
        let Some(thread) = self.thread.take() else { return };
        let began = Instant::now();
        while !thread.is_finished() && began.elapsed() < LAST_WAIT {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn write_lines(
    waiting: &Receiver<String>,
    mut out: impl Write,
    lost: &AtomicU64,
    tell_lost: &dyn Fn(u64) -> String,
) {
    while let Ok(line) = waiting.recv() {
        // Nobody reads any more: that is their choice, and no reason to stop.
        let _ = out.write_all(line.as_bytes());
        let n = lost.swap(0, Ordering::Relaxed);
        if n > 0 {
            let _ = out.write_all(tell_lost(n).as_bytes());
        }
    }
    let _ = out.flush();
}

/// One line, its end included.
fn line(look: Look, level: Level, message: &str, fields: &[(&str, &dyn Display)]) -> String {
    let time = Timestamp::from_system(SystemTime::now()).to_string();
    match look.shape {
        Shape::Text => text_line(look, &time, level, message, fields),
        Shape::Json => {
            let mut line = format!("{{\"time\":\"{time}\",\"level\":\"{}\"", level.name());
            let mut pair = |name: &str, text: &str| {
                let _ = write!(line, ",{}:{}", quoted(name), quoted(&value(text)));
            };
            pair("message", message);
            for (name, one) in fields {
                pair(name, &one.to_string());
            }
            line.push_str("}\n");
            line
        }
    }
}

/// `08:15:02Z warning  what happened  field=value`.
fn text_line(look: Look, time: &str, level: Level, message: &str, fields: &[(&str, &dyn Display)]) -> String {
    let clock = format!("{}Z", time.get(11..19).unwrap_or(time));
    let (label, tone) = level.label();
    let indent = clock.len() + 1 + LABEL + 2;
    let blanks = " ".repeat(LABEL - label.len() + 2);
    let head = if look.colour {
        format!("{} {}{blanks}", style::paint(&clock, Tone::Dim), style::paint(label, tone))
    } else {
        format!("{clock} {label}{blanks}")
    };
    let mut body = escape(&value(message)).into_owned();
    let mut gap = "  ";
    for (name, one) in fields {
        let one = value(&one.to_string());
        if one.len() < SAID || !message.contains(&one) {
            let _ = write!(body, "{gap}{name}={}", bare_or_quoted(&escape(&one)));
            gap = " ";
        }
    }
    let lines = match look.columns {
        Some(columns) => wrap(&body, columns.saturating_sub(indent)),
        None => vec![body],
    };
    format!("{head}{}\n", lines.join(&format!("\n{}", " ".repeat(indent))))
}

/// A value that ends where the next field begins.
fn bare_or_quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !matches!(c, '=' | '"');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('"', "\\\""))
}

/// A value without secrets, and not without end.
fn value(text: &str) -> String {
    let text = redact(text);
    match text.char_indices().nth(VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A JSON string in which nothing invisible is left.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if is_dangerous(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;
    use crate::escape::width;

    const TEXT: Look = Look { shape: Shape::Text, colour: false, columns: None };
    const JSON: Look = Look { shape: Shape::Json, ..TEXT };

    proptest! {
        /// Reliability row 68: whatever stands in a value, a line of JSON is one line, and is read back as it was written.
        #[test]
        fn a_line_is_one_line_and_reads_back(message in any::<String>(), one in any::<String>()) {
            let line = line(JSON, Level::Info, &message, &[("one", &one)]);
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert!(!line.trim_end_matches('\n').chars().any(is_dangerous));
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read["message"].as_str().unwrap(), value(&message));
            prop_assert_eq!(read["one"].as_str().unwrap(), value(&one));
            let text = super::line(TEXT, Level::Info, &message, &[("one", &one)]);
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert!(!text.trim_end_matches('\n').chars().any(is_dangerous));
            // On a terminal it may take several, none of which looks like a beginning.
            let narrow = Look { columns: Some(60), ..TEXT };
            let text = super::line(narrow, Level::Info, &message, &[("one", &one)]);
            for line in text.trim_end_matches('\n').split('\n').skip(1) {
                prop_assert!(line.starts_with(&" ".repeat(19)) && width(line) <= 60, "{:?}", line);
            }
            prop_assert!(!text.replace('\n', "").chars().any(is_dangerous));
        }
    }

    /// Reliability row 62: no secret is logged.
    #[test]
    fn no_secret_is_logged() {
        for look in [TEXT, JSON] {
            let line = line(
                look,
                Level::Warn,
                "cannot reach postgres://a:hunter2@db",
                &[("why", &"password=hunter3")],
            );
            assert!(!line.contains("hunter"), "{line}");
        }
    }

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// R-C2: what matters less than was asked for is not written, and the last line is.
    #[test]
    fn lines_are_written_in_order() {
        let out = Arc::new(Mutex::new(Vec::new()));
        let (log, writer) = Log::begin(TEXT, Level::Info, Shared(Arc::clone(&out)));
        log.say(Level::Debug, "not this", &[]);
        log.info("first", &[("n", &1)]);
        log.warn("second", &[]);
        writer.finish(log);
        let said = String::from_utf8_lossy(&out.lock().unwrap()).into_owned();
        let said: Vec<&str> = said.lines().map(|line| line.split_once("Z ").unwrap().1).collect();
        assert_eq!(said, ["note     first  n=1", "warning  second"]);
    }

    /// Reliability row 68: a value with blanks, quotes or an equals sign stays one value, and what a sentence has said is not said twice.
    #[test]
    fn a_field_cannot_be_smuggled_in() {
        let fields: [(&str, &dyn Display); 4] =
            [("id", &"job_7"), ("kind", &"a b=\"c\" level=error"), ("empty", &""), ("n", &7)];
        let line = text_line(TEXT, "2026-11-16T08:15:02.123Z", Level::Warn, "job_7 needs a person", &fields);
        let shown =
            "08:15:02Z warning  job_7 needs a person  kind=\"a b=\\\"c\\\" level=error\" empty=\"\" n=7\n";
        assert_eq!(line, shown);
        let narrow = Look { columns: Some(40), ..TEXT };
        let line =
            text_line(narrow, "2026-11-16T08:15:02.123Z", Level::Info, "a sentence of some length", &[]);
        assert_eq!(line, "08:15:02Z note     a sentence of some\n                   length\n");
    }
}
