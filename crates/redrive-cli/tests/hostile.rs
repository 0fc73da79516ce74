//! R-C2: text from outside does nothing to a terminal, in any view and any form, and breaks no border.
//!
//! Commands of jobs fail with hostile words on stderr; then everything that looks is looked at.

#![allow(clippy::unwrap_used)]

mod support;

use support::{line, redrive};
use unicode_width::UnicodeWidthStr;

/// What people have sent to terminals to harm or fool whoever reads.
fn samples() -> Vec<String> {
    let zalgo = |c: char| format!("Z{}a{}", c.to_string().repeat(400), c.to_string().repeat(400));
    vec![
        "\x1b[2J\x1b[31mcleared and red".into(),
        "\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\ me".into(),
        "\x1b]52;c;ZXZpbA==\x07 clipboard".into(),
        "\x1b]0;a new title\x07".into(),
        "\x1bP+q544e\x1b\\ and \x1b_Gi=1;\x1b\\".into(),
        "one-byte \u{9b}31m and \u{9d}0;x\u{9c}".into(),
        "back\x08\x08\x08space, \r over, \x7f del, \x0e shift".into(),
        "abc\u{202e}fdp.exe \u{2066}x\u{2069} \u{200f}y".into(),
        "zero\u{200b}width\u{200d}joined\u{feff}bom\u{2060}wj".into(),
        "tags \u{e0041}\u{e0042}\u{e007f} hidden \u{e0100}\u{fe0f}".into(),
        zalgo('\u{335}'),
        zalgo('\u{489}'),
        format!("👨{}", "\u{200d}👩".repeat(200)),
        "\u{115f}\u{3164}\u{ffa0}blank".into(),
        "\u{301}\u{302}mark first".into(),
        "接続\u{3099}\u{309a}できません\u{ff9e}ｶﾞ".repeat(20),
        "x".repeat(5_000),
        "表".repeat(3_000),
        "─│╭╮ box │ drawing ╯".into(),
    ]
}

/// Whether a character could act on a terminal or hide beside others.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e01ef}' | '\u{fe00}'..='\u{fe0f}' | '\u{115f}' | '\u{3164}' | '\u{ffa0}')
}

/// R-C2: hostile words in a failure are shown harmless in every view and every form, and no line is too wide.
#[test]
fn hostile_words_are_shown_harmless_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("--store sqlite:{}", folder.path().join("redrive.db").display());
    for sample in samples() {
        let command =
            ["enqueue", "--exec", "/bin/sh", "-c", "printf '%s' \"$1\" >&2; exit 65", "sh", &sample];
        let url = store.trim_start_matches("--store ");
        let ran = redrive(command).env("REDRIVE_STORE", url).in_directory(folder.path()).run();
        assert_eq!(ran.code, 0, "{ran}");
    }
    // A worker keeps the output of its commands; `run` would pass it on to whoever runs this test.
    let ran = line(&format!("work --until-empty -q {store}")).in_directory(folder.path()).run();
    assert_eq!(ran.code, 0, "{ran}");
    let mut commands: Vec<String> =
        ["", "status", "dlq", "dlq -v", "events"].iter().map(|command| (*command).to_owned()).collect();
    for job in 1..=samples().len() {
        commands.extend([format!("dlq show {job} --with-payload"), format!("explain {job} -v")]);
    }
    for command in &commands {
        for form in ["--plain", "--json", "--color never"] {
            for lang in ["en", "ja"] {
                let ran = line(&format!("{command} {form} --lang {lang} {store}")).on_a_terminal().run();
                assert_eq!(ran.code, 0, "{ran}");
                // JSON keeps what it is given, as escapes where it could act.
                let harmful = |c: char| {
                    if form == "--json" {
                        acts(c) && !matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0080}'..='\u{e01ef}')
                    } else {
                        acts(c)
                    }
                };
                assert!(!ran.stdout.contains(harmful), "{command} {form}: {:?}", ran.stdout);
                if form == "--color never" && command != "events" {
                    let wide = ran.stdout.lines().find(|line| line.width() > 80);
                    assert_eq!(wide, None, "{command} {form}");
                    for line in ran.stdout.lines().filter(|line| line.starts_with('│')) {
                        assert!(line.ends_with('│') && line.width() <= 80, "{command}: {line}");
                    }
                }
            }
        }
    }
}
