//! What the cipher promises: whatever goes in comes out, and nothing that was touched or moved does.

use proptest::prelude::*;

use super::*;

const CELLS: [Cell; 13] = [
    Cell::JobPayload,
    Cell::JobOverrides,
    Cell::ProgressHint,
    Cell::LeaseCancelWhy,
    Cell::LetterMessage,
    Cell::LetterContext,
    Cell::LetterReport,
    Cell::GroupSample,
    Cell::VersionPayload,
    Cell::EventDetail,
    Cell::AsideWhy,
    Cell::AsideText,
    Cell::KeyProof,
];

fn line(id: &str, byte: u8) -> String {
    let key = base64::engine::general_purpose::STANDARD.encode([byte; KEY_BYTES]);
    format!("{id} {key}")
}

fn ring(lines: &[String]) -> KeyRing {
    KeyRing::parse("test", &lines.join("\n")).unwrap()
}

/// The seals of a store whose newest key is `current`.
fn seals(store_id: u64, lines: &[String], current: &str, whole: bool) -> Seals {
    let keeper = Keeper::new(Some(ring(lines)), store_id);
    let row = keeper.row(current, whole).unwrap();
    keeper.seals(&[row]).unwrap()
}

fn trouble<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    result.unwrap_err().to_string()
}

/// Texts and bytes that begin like sealed ones more often than chance would have it.
fn tricky_text() -> impl Strategy<Value = String> {
    let mark = prop_oneof![Just(""), Just(SEALED_TEXT), Just(PLAIN_TEXT), Just("sealed:rdv1:k1:AAAA")];
    (proptest::collection::vec(mark, 0..3), any::<String>()).prop_map(|(marks, text)| marks.concat() + &text)
}

fn tricky_bytes() -> impl Strategy<Value = Vec<u8>> {
    let mark = prop_oneof![
        Just(Vec::new()),
        Just(MAGIC.to_vec()),
        Just([&MAGIC[..], &[PLAIN_BYTES]].concat()),
        Just([&MAGIC[..], &[SEALED_BYTES, 2, b'k', b'1']].concat()),
    ];
    (proptest::collection::vec(mark, 0..3), any::<Vec<u8>>())
        .prop_map(|(marks, bytes)| [marks.concat(), bytes].concat())
}

proptest! {
    /// R-D7: whatever is sealed opens, with a key and without; what looks sealed and is not, too.
    #[test]
    fn everything_comes_back(text in tricky_text(), bytes in tricky_bytes(), row: i64, store: u64, at in 0..CELLS.len()) {
        let cell = CELLS[at];
        let plain = Seals::none(store);
        let keyed = seals(store, &[line("k1", 1)], "k1", false);
        for seals in [&plain, &keyed] {
            let stored = seals.seal_text(cell, row, &text).unwrap().into_owned();
            prop_assert_eq!(seals.open_text(cell, row, stored.clone()).unwrap(), text.clone());
            let kept = seals.seal_bytes(cell, row, &bytes).unwrap().into_owned();
            prop_assert_eq!(seals.open_bytes(cell, row, kept.clone()).unwrap(), bytes.clone());
            prop_assert!(!seals.is_stale_text(&stored) && !seals.is_stale_bytes(&kept));
        }
        // Written before there was a key, read with one.
        let stored = plain.seal_text(cell, row, &text).unwrap().into_owned();
        prop_assert!(keyed.is_stale_text(&stored));
        prop_assert_eq!(keyed.open_text(cell, row, stored).unwrap(), text);
        let kept = plain.seal_bytes(cell, row, &bytes).unwrap().into_owned();
        prop_assert!(keyed.is_stale_bytes(&kept));
        prop_assert_eq!(keyed.open_bytes(cell, row, kept).unwrap(), bytes);
    }

    /// R-D7: a cell opens in its own row, column and store, and nowhere else.
    #[test]
    fn a_cell_that_was_moved_does_not_open(
        text: String, row: i64, other_row: i64, store: u64, other_store: u64, at in 0..CELLS.len(), other in 0..CELLS.len(),
    ) {
        let keys = [line("k1", 1)];
        let (here, elsewhere) = (seals(store, &keys, "k1", true), seals(other_store, &keys, "k1", true));
        let stored = here.seal_text(CELLS[at], row, &text).unwrap().into_owned();
        let kept = here.seal_bytes(CELLS[at], row, text.as_bytes()).unwrap().into_owned();
        for (seals, cell, row, same) in [
            (&here, CELLS[at], row, true),
            (&here, CELLS[at], other_row, row == other_row),
            (&here, CELLS[other], row, at == other),
            (&elsewhere, CELLS[at], row, store == other_store),
        ] {
            prop_assert_eq!(seals.open_text(cell, row, stored.clone()).is_ok(), same);
            prop_assert_eq!(seals.open_bytes(cell, row, kept.clone()).is_ok(), same);
        }
    }
}

/// R-D7: every bit counts, those of the header included, once a store is sealed whole.
#[test]
fn a_cell_with_a_flipped_bit_does_not_open() {
    let seals = seals(7, &[line("k1", 1), line("k2", 2)], "k1", true);
    let kept = seals.seal_bytes(Cell::JobPayload, 3, b"an order").unwrap().into_owned();
    let stored = seals.seal_text(Cell::LetterMessage, 3, "an order").unwrap().into_owned();
    for bit in 0..kept.len() * 8 {
        let mut flipped = kept.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let opened = seals.open_bytes(Cell::JobPayload, 3, flipped);
        assert!(opened.is_err(), "bit {bit} of {} does not count", kept.len() * 8);
    }
    for bit in 0..stored.len() * 8 {
        let mut flipped = stored.clone().into_bytes();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(flipped) = String::from_utf8(flipped) else { continue };
        assert!(seals.open_text(Cell::LetterMessage, 3, flipped).is_err(), "bit {bit} does not count");
    }
    for cut in 0..kept.len() {
        assert!(seals.open_bytes(Cell::JobPayload, 3, kept[..cut].to_vec()).is_err(), "cut at {cut}");
    }
    for cut in 0..stored.len() {
        assert!(seals.open_text(Cell::LetterMessage, 3, stored[..cut].to_owned()).is_err(), "cut at {cut}");
    }
}

/// R-D7: where every value is sealed, a plain one was put there by somebody else.
#[test]
fn a_plain_cell_in_a_store_that_is_sealed_whole_is_refused() {
    let (plain, mixed) = (Seals::none(7), seals(7, &[line("k1", 1)], "k1", false));
    let whole = seals(7, &[line("k1", 1)], "k1", true);
    for text in ["pay 1", "sealed:rdv1:pay 1"] {
        let stored = plain.seal_text(Cell::LetterMessage, 1, text).unwrap().into_owned();
        let kept = plain.seal_bytes(Cell::JobPayload, 1, text.as_bytes()).unwrap().into_owned();
        assert_eq!(mixed.open_text(Cell::LetterMessage, 1, stored.clone()).unwrap(), text);
        assert!(whole.open_text(Cell::LetterMessage, 1, stored).is_err());
        assert!(whole.open_bytes(Cell::JobPayload, 1, kept).is_err());
    }
}

/// R-D7: the same value sealed twice shows nothing of being the same, and nothing of itself.
#[test]
fn equal_values_look_different() {
    let seals = seals(7, &[line("k1", 1)], "k1", true);
    let once = seals.seal_bytes(Cell::JobPayload, 3, b"an order of tea").unwrap();
    let twice = seals.seal_bytes(Cell::JobPayload, 3, b"an order of tea").unwrap();
    let header = MAGIC.len() + 2 + "k1".len();
    assert_eq!(once[..header], twice[..header]);
    assert!(once[header..].iter().zip(&twice[header..]).filter(|(a, b)| a == b).count() < 10);
    assert!(!once.windows(5).any(|part| b"an order of tea".windows(5).any(|plain| part == plain)));
}

/// R-D7: without a key nothing is copied.
#[test]
fn without_a_key_nothing_is_allocated() {
    let seals = Seals::none(7);
    assert!(matches!(seals.seal_bytes(Cell::JobPayload, 1, b"tea").unwrap(), Cow::Borrowed(_)));
    assert!(matches!(seals.seal_text(Cell::EventDetail, 1, "tea").unwrap(), Cow::Borrowed(_)));
}

/// R-D7: what is wrong is told apart: no key, not this one, another one of the same name, a damaged value.
#[test]
fn troubles_are_told_apart() {
    let keeper = |lines: &[String]| Keeper::new(Some(ring(lines)), 7);
    let first = keeper(&[line("k1", 1)]);
    let rows = [first.row("k1", true).unwrap()];
    let sealed = first.seals(&rows).unwrap().seal_text(Cell::LetterMessage, 3, "no").unwrap().into_owned();
    assert_eq!(
        trouble(Keeper::new(None, 7).seals(&rows)),
        "the store is encrypted with key `k1`, which was not given"
    );
    assert_eq!(
        trouble(keeper(&[line("k2", 1), line("k3", 3)]).seals(&rows)),
        "the store is encrypted with key `k1`, which was not given (given: k2, k3)"
    );
    assert_eq!(
        trouble(keeper(&[line("k1", 2)]).seals(&rows)),
        "the key given as `k1` is not the one that the store was encrypted with"
    );
    let seals = first.seals(&rows).unwrap();
    assert_eq!(
        trouble(seals.open_text(Cell::LetterMessage, 4, sealed.clone())),
        "dead_letter.error_message of row 4 cannot be decrypted: it was changed, or it belongs somewhere else"
    );
    assert_eq!(
        trouble(Seals::none(7).open_text(Cell::LetterMessage, 3, sealed)),
        "the store is encrypted with key `k1`, which was not given"
    );
}

/// R-D7: the newest key seals, the older ones open.
#[test]
fn an_older_key_still_opens() {
    let keeper = Keeper::new(Some(ring(&[line("new", 2), line("old", 1)])), 7);
    let old = keeper.row("old", true).unwrap();
    let before = keeper.seals(std::slice::from_ref(&old)).unwrap();
    let sealed = before.seal_text(Cell::EventDetail, 1, "{}").unwrap().into_owned();
    let after = keeper.seals(&[old, keeper.row("new", true).unwrap()]).unwrap();
    assert_eq!((before.current(), after.current()), (Some("old"), Some("new")));
    assert!(!before.is_stale_text(&sealed) && after.is_stale_text(&sealed));
    assert_eq!(after.open_text(Cell::EventDetail, 1, sealed).unwrap(), "{}");
}

/// R-D7, reliability row 73: each bad set of keys is refused with words that help, none of which is of a key.
#[test]
fn bad_keys_are_refused_with_words_that_help() {
    let secret = line("k1", 9);
    let encoded = secret.split(' ').nth(1).unwrap();
    for (text, words) in [
        ("", "here holds no key; a line is `<key-id> <base64 of 32 bytes>`"),
        ("\n # nothing\n;", "here holds no key; a line is `<key-id> <base64 of 32 bytes>`"),
        (encoded, "here, line 1: a line is `<key-id> <base64 of 32 bytes>`"),
        (&format!("# one\nk1 {encoded} more"), "here, line 2: a line is `<key-id> <base64 of 32 bytes>`"),
        (
            &format!("k:1 {encoded}"),
            "here, line 1: a key's id has 1 to 64 letters, digits, dots, dashes or underscores",
        ),
        ("k1 AAAA", "here, line 1: key `k1` has 3 bytes; a key has 32"),
        (&format!("k1 {encoded}!"), "here, line 1: what follows the id of key `k1` is not base64"),
        (&format!("{secret};{secret}"), "here, line 2: there is a key `k1` already"),
    ] {
        let trouble = KeyRing::parse("here", text).unwrap_err();
        assert_eq!(trouble.to_string(), words);
        assert!(!format!("{trouble:?}").contains(encoded), "a key is in the words");
    }
    let ring = KeyRing::parse("here", &format!("# today\n{secret} # mine\n{}\n", line("k0", 8))).unwrap();
    assert_eq!(ring.ids().collect::<Vec<_>>(), ["k1", "k0"]);
    assert_eq!(format!("{ring:?}"), "KeyRing { .. }");
}

/// R-D7, reliability row 73: a file that others can read is refused, for whoever asks.
#[test]
fn a_file_of_keys_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, line("k1", 1)).unwrap();
    for mode in [0o644, 0o640, 0o604, 0o620, 0o601] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let words = KeyRing::read_file(&path).unwrap_err().to_string();
        let shown = path.display();
        assert_eq!(
            words,
            format!(
                "{shown} can be read by others (mode {mode:03o}); make it yours alone: chmod 600 {shown}"
            )
        );
    }
    for mode in [0o600, 0o400] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(KeyRing::read_file(&path).unwrap().ids().count(), 1);
    }
    let missing = KeyRing::read_file(&folder.path().join("none")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read the keys in ") && missing.contains("No such file"), "{missing}");
    let words = KeyRing::read_file(folder.path()).unwrap_err().to_string();
    assert!(words.ends_with("it is a directory"), "{words}");
}

/// R-D7: fresh keys are never the same.
#[test]
fn fresh_keys_differ() {
    let (one, other) = (KeyRing::generate("k1").unwrap(), KeyRing::generate("k1").unwrap());
    assert_ne!(*one, *other);
    assert!(KeyRing::parse("here", &one).is_ok());
    assert!(KeyRing::generate("a b").is_err() && KeyRing::generate("").is_err());
}
