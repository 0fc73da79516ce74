//! Text that is kept stays small: both ends of words that were said, the end of what a command wrote.
//!
//! Cutting comes after blanking wherever the text is stored: a secret whose name was cut off cannot be recognised.

use std::borrow::Cow;

/// How much of a command's output, or of an answer's body, is kept with an attempt.
#[cfg(any(feature = "exec", feature = "http-call", test))]
pub(crate) const OUTPUT_BOUND: usize = 8 * 1024;

/// At least how many bytes the words around a cut need; less would be all marker.
const MARKER_ROOM: usize = 64;

/// The text, or its beginning and its end with a mark between them, in no more than `bound` bytes.
pub(crate) fn both_ends(text: &str, bound: usize) -> Cow<'_, str> {
    if text.len() <= bound {
        return Cow::Borrowed(text);
    }
    let room = bound.saturating_sub(MARKER_ROOM) / 2;
    let head = &text[..text.floor_char_boundary(room)];
    let tail = &text[text.ceil_char_boundary(text.len() - room)..];
    Cow::Owned(format!("{head}\n{}\n{tail}", mark((text.len() - head.len() - tail.len()) as u64)))
}

/// What stands where something was left out.
fn mark(bytes: u64) -> String {
    format!("[… {bytes} bytes left out …]")
}

/// The end of a stream, in bounded memory however much goes through.
#[cfg(any(feature = "exec", test))]
#[derive(Debug, Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    seen: u64,
}

#[cfg(any(feature = "exec", test))]
impl Tail {
    /// Kept beyond what is shown, so that a secret at the edge is still recognised by its name: as long as a
    /// private key in its armour is.
    const MARGIN: usize = 4 * 1024;
    const KEPT: usize = OUTPUT_BOUND + Tail::MARGIN;

    /// Adds what came.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.seen += chunk.len() as u64;
        let chunk = &chunk[chunk.len().saturating_sub(Tail::KEPT)..];
        // Moved together only when twice the bound is full, so that small writes do not shift it every time.
        if self.bytes.len() + chunk.len() > 2 * Tail::KEPT {
            let keep = Tail::KEPT - chunk.len();
            self.bytes.drain(..self.bytes.len().saturating_sub(keep));
        }
        self.bytes.extend_from_slice(chunk);
    }

    /// Whether nothing came.
    pub(crate) const fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// The end of it as text, as it came: what a classifier reads.
    pub(crate) fn text(&self) -> String {
        let mut kept = &self.bytes[self.bytes.len().saturating_sub(Tail::KEPT)..];
        if self.seen > kept.len() as u64 {
            // A character whose beginning is gone is none; at most three bytes can be left of one.
            let whole = kept.iter().take(3).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
            kept = &kept[whole.unwrap_or(0)..];
        }
        String::from_utf8_lossy(kept).into_owned()
    }

    /// The end of it as it may be stored: blanked, then cut, with a mark when something is left out.
    pub(crate) fn stored(&self, known: &redrive_policy::KnownSecrets) -> Option<String> {
        if self.seen == 0 {
            return None;
        }
        let text = self.text();
        let was_cut = self.seen > Tail::KEPT as u64;
        let text = crate::secrets::redact_knowing(known, if was_cut { whole_lines(&text) } else { &text });
        if !was_cut && text.len() <= OUTPUT_BOUND {
            return Some(text);
        }
        let from = text.ceil_char_boundary(text.len().saturating_sub(OUTPUT_BOUND - MARKER_ROOM));
        // From a line's beginning, unless that line is most of it.
        let line =
            text[from..].find('\n').filter(|at| *at < OUTPUT_BOUND / 4).map_or(from, |at| from + at + 1);
        let shown = &text[if from == 0 { 0 } else { line }..];
        Some(format!("{}\n{shown}", mark(self.seen.saturating_sub(shown.len() as u64))))
    }
}

/// What follows the first line's end, and the end of a private key whose beginning was cut off.
#[cfg(any(feature = "exec", test))]
fn whole_lines(text: &str) -> &str {
    let margin = text.floor_char_boundary(Tail::MARGIN);
    let text = text[..margin].find(['\n', ' ']).map_or(text, |at| &text[at + 1..]);
    // A beginning that stands before the end would have been blanked with it.
    let end = text.find("-----END ").filter(|end| !text[..*end].contains("-----BEGIN "));
    let end = end.and_then(|end| Some(end + text[end..].find("PRIVATE KEY-----")?));
    end.map_or(text, |end| &text[end + "PRIVATE KEY-----".len()..])
}

#[cfg(test)]
mod tests {
    use redrive_policy::KnownSecrets;

    use super::*;

    /// R-P3: of long words both ends are read, never half a character, never more than the bound.
    #[test]
    fn long_text_keeps_both_ends_within_the_bound() {
        let text = format!("first{}last", "é".repeat(20_000));
        let kept = both_ends(&text, 1_000);
        assert!(kept.len() <= 1_000 && kept.starts_with("firsté") && kept.ends_with("élast"), "{kept}");
        assert!(kept.contains("bytes left out"));
        assert_eq!(both_ends("short", 1_000), "short");
    }

    /// R-D7: what is kept of a stream is bounded, whole characters, and says that it is not all.
    #[test]
    fn the_tail_of_a_stream_is_bounded_and_says_so() {
        let mut tail = Tail::default();
        for line in 0..100_000 {
            tail.push(format!("ligne é {line}\n").as_bytes());
            assert!(tail.bytes.len() <= 2 * Tail::KEPT);
        }
        let stored = tail.stored(&KnownSecrets::default()).unwrap();
        assert!(stored.len() <= OUTPUT_BOUND, "{}", stored.len());
        assert!(stored.starts_with("[… ") && stored.ends_with("ligne é 99999\n"), "{stored}");
        assert!(!stored.contains('\u{fffd}'), "{stored}");
        tail.push(&vec![0xff; 3 * Tail::KEPT]);
        assert!(tail.stored(&KnownSecrets::default()).unwrap().len() <= OUTPUT_BOUND);
        assert_eq!(Tail::default().stored(&KnownSecrets::default()), None);
    }

    /// R-D7: a secret whose name would fall to the cut is blanked all the same.
    #[test]
    fn a_secret_at_the_edge_of_the_tail_is_blanked() {
        for before in [0, 1, 5, 9, 10, 17, 18, 25, 40] {
            let mut tail = Tail::default();
            tail.push("x".repeat(50_000).as_bytes());
            tail.push(b"\npassword=hunter2 ");
            tail.push("y ".repeat((OUTPUT_BOUND - before) / 2).as_bytes());
            assert!(!tail.stored(&KnownSecrets::default()).unwrap().contains("hunter2"), "{before}");
        }
        let mut tail = Tail::default();
        tail.push(b"-----BEGIN RSA PRIVATE KEY-----\n");
        tail.push("MIIEsecret\n".repeat(300).as_bytes());
        tail.push(b"-----END RSA PRIVATE KEY-----\n");
        tail.push("y".repeat(Tail::KEPT - 200).as_bytes());
        let stored = tail.stored(&KnownSecrets::default()).unwrap();
        assert!(!stored.contains("MIIEsecret"), "{stored}");
    }
}
