//! What dresses a message: terminal escapes, tags, entities. Each function gives where the dress ends.

/// A tag is no longer than this, and a style or script element is looked for no further than that.
const MAX_TAG: usize = 512;
const MAX_RAW: usize = 4_096;

/// The end of a terminal escape that starts at `i`.
pub(super) fn skip_escape(bytes: &[u8], i: usize) -> usize {
    match bytes.get(i + 1) {
        Some(b'[') => {
            let end = bytes[i + 2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            end.map_or(bytes.len(), |at| i + 2 + at + 1)
        }
        Some(b']') => {
            let end = bytes[i + 2..].iter().position(|byte| matches!(byte, 0x07 | 0x1b));
            end.map_or(bytes.len(), |at| i + 2 + at + 1)
        }
        Some(byte) if byte.is_ascii() => i + 2,
        _ => i + 1,
    }
}

/// The end of a markup tag that starts at `i`, if it is one: `<urlopen error …>` is not.
pub(super) fn tag_end(line: &[u8], i: usize) -> Option<usize> {
    let mut at = i + 1;
    match line.get(at)? {
        b'!' | b'?' => {
            let end = line[at..].iter().take(MAX_TAG).position(|byte| *byte == b'>');
            return end.map(|end| at + end + 1);
        }
        b'/' => at += 1,
        _ => {}
    }
    let name = line[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_'))
        .count();
    if name == 0 || !line[at].is_ascii_alphabetic() {
        return None;
    }
    at += name;
    let end = at + line[at..].iter().take(MAX_TAG).position(|byte| *byte == b'>')?;
    let inside = line[at..end].trim_ascii();
    // The first thing in a tag is an attribute: `<HttpError 429 when requesting /x?a=b>` has none.
    let attribute =
        inside.iter().position(|byte| matches!(byte, b'=' | b' ')).is_some_and(|at| inside[at] == b'=');
    (inside.is_empty() || inside == b"/" || attribute).then_some(end + 1)
}

/// After a `<style>` or `<script>` tag, the end of that element; else the end of the tag.
pub(super) fn skip_raw_element(line: &[u8], open: usize, tag_end: usize) -> usize {
    let tag = &line[open..tag_end];
    for (name, close) in [(&b"<style"[..], &b"</style>"[..]), (b"<script", b"</script>")] {
        if tag.len() > name.len() && tag[..name.len()].eq_ignore_ascii_case(name) {
            let end = line[tag_end..]
                .windows(close.len())
                .take(MAX_RAW)
                .position(|window| window.eq_ignore_ascii_case(close));
            return end.map_or(tag_end, |at| tag_end + at + close.len());
        }
    }
    tag_end
}

/// After `&quot;` and its like; a lone ampersand is passed over.
pub(super) fn entity_end(line: &[u8], i: usize) -> usize {
    let len = line[i + 1..]
        .iter()
        .take(8)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#')
        .count();
    if len > 0 && line.get(i + 1 + len) == Some(&b';') { i + len + 2 } else { i + 1 }
}
