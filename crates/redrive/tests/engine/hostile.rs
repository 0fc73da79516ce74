//! Files that were not written to be read: nothing is lost, nothing is believed, and memory stays bounded.

use std::io::{BufReader, Read};

use redrive::engine::ImportOptions;
use redrive_store::EventFilter;

use crate::support::{World, run};

fn line(id: &str, more: &str) -> String {
    format!(
        r#"{{"event_id":"{id}","timestamp":"2026-11-01T00:00:00Z","event_type":"action","source":"s"{more}}}"#
    )
}

/// R-E4, reliability row 26: what is read is read, what is not is kept aside with its number and its reason.
#[test]
fn hostile_lines_are_kept_aside_one_by_one() {
    run(async {
        let world = World::new();
        let deep = format!(r#","data":{}1{}"#, "[".repeat(100), "]".repeat(100));
        let deeper = format!(r#","data":{}1{}"#, "[".repeat(100_000), "]".repeat(100_000));
        let mut file = b"\xef\xbb\xbf".to_vec();
        let lines: Vec<Vec<u8>> = vec![
            format!("{}\r", line("good-1", "")).into(),
            line("deep", &deep).into(),
            line("deeper", &deeper).into(),
            line("good-1", r#","data":{"again":true}"#).into(),
            line("good-2", r#","parent_event_id":"good-3""#).into(),
            line("good-3", r#","parent_event_id":"good-2""#).into(),
            line("own-parent", r#","parent_event_id":"own-parent""#).into(),
            line("", "").into(),
            line("a\\u0000b", "").into(),
            line("nul-data", r#","data":{"text":"a\u0000b"}"#).into(),
            b"\0\0\0".to_vec(),
            b"{\"event_id\":\"\xff\xfe\"}".to_vec(),
            line("long-type", &format!(r#","event_type":"{}""#, "t".repeat(1 << 20))).into(),
            line("tags", &format!(r#","tags":["{}"]"#, "t".repeat(2 << 20))).into(),
            line("importance", r#","importance":9"#).into(),
            br#"{"event_id":"letter","timestamp":"2026-11-01T00:00:00Z","error_type":"E","error_message":"password=hunter2","error_category":"network","context":{"action":"two\nlines"}}"#.to_vec(),
            b"[]".to_vec(),
            b"null".to_vec(),
            b"   ".to_vec(),
        ];
        for line in &lines {
            file.extend_from_slice(line);
            file.push(b'\n');
        }
        let options = ImportOptions { origin: "hostile.jsonl".to_owned(), ..ImportOptions::default() };
        let imported = world.engine.import_events(&mut &file[..], &options).await.unwrap();
        assert_eq!((imported.lines, imported.added, imported.known, imported.bad), (18, 7, 1, 10));
        let asides = world.engine.store().asides(0, 99).await.unwrap();
        let numbers: Vec<u64> = asides.iter().map(|aside| aside.scrap.line).collect();
        assert_eq!(numbers, [2, 3, 8, 9, 11, 12, 13, 14, 17, 18]);
        assert!(asides[0].scrap.why.contains("deeper than 64"), "{}", asides[0].scrap.why);
        for event in world.engine.query(EventFilter::default(), 99).await.unwrap() {
            let chain = world.engine.causality(&event.event_id).await.unwrap();
            assert!(chain.len() <= 2, "{}", event.event_id);
        }
        let letter = world.engine.store().event("letter".to_owned()).await.unwrap().unwrap();
        assert_eq!(letter.source, "unknown");
        assert_eq!(letter.error_info.unwrap().error_message, "password=[redacted]");
        assert!(world.engine.store().check().await.unwrap().is_clean());
        // What was exported comes back as known.
        let mut out = Vec::new();
        world.engine.export_events(EventFilter::default(), &mut out).await.unwrap();
        let again = world.engine.import_events(&mut &out[..], &options).await.unwrap();
        assert_eq!((again.added, again.known, again.bad), (0, 7, 0));
    });
}

/// R-E4, reliability row 26: a line of 100 MB is read past, and only its beginning is kept.
#[test]
fn a_line_without_end_is_read_past() {
    run(async {
        let world = World::new();
        let tail = format!("\n{}\n", line("after", ""));
        let endless = std::io::repeat(b'x').take(100 << 20).chain(tail.as_bytes());
        let mut from = BufReader::new(endless);
        let imported = world.engine.import_events(&mut from, &ImportOptions::default()).await.unwrap();
        assert_eq!((imported.lines, imported.added, imported.bad), (2, 1, 1));
        let kept = world.engine.store().asides(0, 9).await.unwrap().remove(0).scrap;
        assert_eq!((kept.text.len(), kept.line), (1 << 20, 1));
    });
}
