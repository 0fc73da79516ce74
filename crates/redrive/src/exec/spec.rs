//! A command as a job holds it: what to run, where, and under which umask. Our own environment is not kept.
//!
//! A step of a task says more: what it reads, how it is told what to do better, what its output has to be like, and
//! which files are put back when it fails.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use redrive_policy::plan::{HintBy, SnapshotPlan};
use redrive_policy::review::ReviewPlan;
use serde::{Deserialize, Serialize};

use crate::packed::Packed;

/// A command, without the shell: nothing in it is split, expanded or quoted.
///
/// ```
/// use redrive::CommandSpec;
///
/// let spec = CommandSpec::new(["pg_dump", "--file", "all of it.sql"]);
/// assert_eq!(spec.to_payload(), br#"{"argv":["pg_dump","--file","all of it.sql"]}"#);
/// assert_eq!(CommandSpec::from_payload(&spec.to_payload()).unwrap(), spec);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandSpec {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs; where we run when nothing is said.
    pub cwd: Option<PathBuf>,
    /// Its umask; ours when nothing is said.
    pub umask: Option<u32>,
    /// Variables that are set for it beside ours.
    pub env: BTreeMap<String, String>,
    /// What it reads from stdin.
    pub stdin: Option<String>,
    /// How it is told what to do better, beside `REDRIVE_HINT`: where it says `{hint}`, or on stdin as well. Absent: not at
    /// all, and `{hint}` stands for itself.
    pub hint: Option<HintBy>,
    /// What the first attempt is told already.
    pub first_hint: Option<String>,
    /// What its output has to be like.
    pub review: Option<Box<ReviewPlan>>,
    /// The files that are put back when it fails.
    pub snapshot: Option<Box<Protected>>,
}

/// Files that are put back when a command fails.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    /// From where the roots are meant.
    pub base: PathBuf,
    /// Which files.
    pub plan: SnapshotPlan,
}

/// Why a payload is not a command.
#[derive(Debug, thiserror::Error)]
pub enum BadCommand {
    /// It has another form.
    #[error("this is not a command: {0}; the form is {{\"argv\": [\"program\", \"argument\", …]}}")]
    Form(#[source] serde_json::Error),
    /// There is nothing to run.
    #[error("the command is empty: argv needs at least a program")]
    Empty,
    /// An argument that claims to be base64 is not.
    #[error("argv[{index}] is not base64")]
    Base64 {
        /// Which argument.
        index: usize,
        /// What is wrong with it.
        source: base64::DecodeError,
    },
    /// A directory claims to be base64 and is not.
    #[error("{what} is not base64")]
    DirectoryBase64 {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        source: base64::DecodeError,
    },
    /// No program can be given such a variable.
    #[error("env: {0:?} is no name of a variable, or its value contains a NUL byte")]
    Variable(String),
    /// No program can be given this.
    #[error("{what} contains a NUL byte, which no program can be given")]
    Nul {
        /// Where it stands.
        what: String,
    },
    /// A umask is three or four octal digits.
    #[error("umask {0:?} is not one to four octal digits up to 0777")]
    Umask(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    argv: Vec<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<Packed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    umask: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<HintBy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    review: Option<Box<ReviewPlan>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<WireProtected>,
}

#[derive(Serialize, Deserialize)]
struct WireProtected {
    base: Packed,
    #[serde(flatten)]
    plan: SnapshotPlan,
}

impl CommandSpec {
    /// A command that runs where and as we do.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> CommandSpec {
        CommandSpec { argv: argv.into_iter().map(Into::into).collect(), ..CommandSpec::default() }
    }

    /// The command as JSON. Arguments are plain text; one that is not UTF-8 is `{"base64": "…"}`, so that every
    /// command comes back byte for byte.
    pub fn to_payload(&self) -> Vec<u8> {
        let wire = Wire {
            argv: self.argv.iter().map(|word| Packed::pack(word.as_bytes().to_vec())).collect(),
            cwd: self.cwd.as_ref().map(|cwd| Packed::pack(cwd.as_os_str().as_bytes().to_vec())),
            umask: self.umask.map(|umask| format!("{umask:04o}")),
            env: self.env.clone(),
            stdin: self.stdin.clone(),
            hint: self.hint,
            first_hint: self.first_hint.clone(),
            review: self.review.clone(),
            snapshot: self.snapshot.as_deref().map(|protected| WireProtected {
                base: Packed::pack(protected.base.as_os_str().as_bytes().to_vec()),
                plan: protected.plan.clone(),
            }),
        };
        // Text, lists and absent fields: there is nothing in it that could fail.
        serde_json::to_vec(&wire).unwrap_or_default()
    }

    /// Reads such JSON.
    ///
    /// ```
    /// let error = redrive::CommandSpec::from_payload(br#"{"argv":[]}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "the command is empty: argv needs at least a program");
    /// ```
    pub fn from_payload(payload: &[u8]) -> Result<CommandSpec, BadCommand> {
        let wire: Wire = serde_json::from_slice(payload).map_err(BadCommand::Form)?;
        let mut argv = Vec::with_capacity(wire.argv.len());
        for (index, word) in wire.argv.into_iter().enumerate() {
            let bytes = word.unpack().map_err(|source| BadCommand::Base64 { index, source })?;
            argv.push(without_nul(bytes, || format!("argv[{index}]"))?);
        }
        if argv.first().is_none_or(|program| program.is_empty()) {
            return Err(BadCommand::Empty);
        }
        let cwd = wire.cwd.map(|cwd| directory("cwd", cwd)).transpose()?;
        let umask = wire.umask.map(|text| octal(&text).ok_or(BadCommand::Umask(text))).transpose()?;
        let is_bad = |(name, value): &(&String, &String)| {
            name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
        };
        if let Some((name, _)) = wire.env.iter().find(is_bad) {
            return Err(BadCommand::Variable(name.clone()));
        }
        let protected = |wire: WireProtected| {
            Ok(Box::new(Protected { base: directory("snapshot.base", wire.base)?, plan: wire.plan }))
        };
        Ok(CommandSpec {
            argv,
            cwd,
            umask,
            env: wire.env,
            stdin: wire.stdin,
            hint: wire.hint,
            first_hint: wire.first_hint,
            review: wire.review,
            snapshot: wire.snapshot.map(protected).transpose()?,
        })
    }

    /// The command as this attempt runs it: what it is told to do better stands where it says `{hint}`, and after what it
    /// reads. Nothing is told when nothing is known.
    ///
    /// ```
    /// use redrive::{CommandSpec, HintBy};
    ///
    /// let spec = CommandSpec { hint: Some(HintBy::Env), ..CommandSpec::new(["llm", "write it. {hint}"]) };
    /// assert_eq!(spec.told(Some("Leave nothing out.")).argv[1], "write it. Leave nothing out.");
    /// assert_eq!(spec.told(None).argv[1], "write it. ");
    /// ```
    #[must_use]
    pub fn told(&self, hint: Option<&str>) -> CommandSpec {
        let Some(by) = self.hint else { return self.clone() };
        // An argument ends at a NUL.
        let hint = hint.unwrap_or_default().replace('\0', " ");
        let fill = |word: &OsString| match word.to_str() {
            Some(word) if word.contains(HINT) => OsString::from(word.replace(HINT, &hint)),
            _ => word.clone(),
        };
        let mut told = CommandSpec { argv: self.argv.iter().map(fill).collect(), ..self.clone() };
        told.stdin = self.stdin.as_ref().map(|text| text.replace(HINT, &hint));
        let said_there = self.stdin.as_ref().is_some_and(|text| text.contains(HINT));
        if by == HintBy::Stdin && !said_there && !hint.is_empty() {
            let before = told.stdin.take().filter(|text| !text.is_empty());
            told.stdin = Some(before.map_or_else(|| hint.clone(), |text| format!("{text}\n\n{hint}")));
        }
        if by == HintBy::Stdin && told.stdin.is_none() {
            told.stdin = Some(String::new());
        }
        told
    }
}

/// Where a command says that it wants to be told what to do better.
const HINT: &str = "{hint}";

fn directory(what: &'static str, packed: Packed) -> Result<PathBuf, BadCommand> {
    let bytes = packed.unpack().map_err(|source| BadCommand::DirectoryBase64 { what, source })?;
    without_nul(bytes, || what.to_owned()).map(PathBuf::from)
}

fn without_nul(bytes: Vec<u8>, what: impl FnOnce() -> String) -> Result<OsString, BadCommand> {
    if bytes.contains(&0) {
        return Err(BadCommand::Nul { what: what() });
    }
    Ok(OsString::from_vec(bytes))
}

fn octal(text: &str) -> Option<u32> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    digits.then(|| u32::from_str_radix(text, 8).ok())?.filter(|umask| *umask <= 0o777)
}

/// Our own umask, as far as the system tells it without changing it.
///
/// ```
/// assert!(redrive::current_umask().is_none_or(|umask| umask <= 0o777));
/// ```
pub fn current_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    octal(status.lines().find_map(|line| line.strip_prefix("Umask:"))?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D7: a job's inputs are kept verbatim, also those that are no text.
    #[test]
    fn a_command_comes_back_byte_for_byte() {
        let odd = OsString::from_vec(b"caf\xe9 \xff".to_vec());
        let spec = CommandSpec {
            argv: vec!["cat".into(), odd.clone(), "日本 \"x\"\n".into(), "".into()],
            cwd: Some(PathBuf::from(odd.clone())),
            umask: Some(0o27),
            ..CommandSpec::default()
        };
        let payload = spec.to_payload();
        assert_eq!(CommandSpec::from_payload(&payload).unwrap(), spec);
        let text = String::from_utf8(payload).unwrap();
        assert!(text.starts_with(r#"{"argv":["cat",{"base64":"Y2Fm6SD/"},"日本 \"x\"\n",""]"#), "{text}");
        assert!(text.ends_with(r#""umask":"0027"}"#), "{text}");
    }

    /// R-P14: what is no command says what is wrong with it.
    #[test]
    fn a_bad_payload_says_what_is_wrong() {
        for (payload, says) in [
            ("", "this is not a command: EOF"),
            ("[]", "this is not a command"),
            (r#"{"argv":"ls -l"}"#, "the form is {\"argv\""),
            (r#"{"argv":["ls",5]}"#, "expected a text, or {\"base64\""),
            (r#"{"argv":["ls"],"shell":true}"#, "unknown field `shell`"),
            (r#"{"argv":["ls"],"env":{"A=B":""}}"#, "env: \"A=B\" is no name of a variable"),
            (
                r#"{"argv":["ls"],"snapshot":{"base":{"base64":"%"},"roots":[]}}"#,
                "snapshot.base is not base64",
            ),
            (r#"{"argv":[]}"#, "the command is empty"),
            (r#"{"argv":[""]}"#, "the command is empty"),
            (r#"{"argv":["ls",{"base64":"%"}]}"#, "argv[1] is not base64"),
            (r#"{"argv":["ls","a\u0000b"]}"#, "argv[1] contains a NUL byte"),
            (r#"{"argv":["ls"],"cwd":"/\u0000"}"#, "cwd contains a NUL byte"),
            (r#"{"argv":["ls"],"umask":"0999"}"#, "umask \"0999\""),
            (r#"{"argv":["ls"],"umask":"7777"}"#, "umask \"7777\""),
        ] {
            let error = CommandSpec::from_payload(payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{payload}: {error}");
        }
    }

    /// R-T3, R-T4: what a step of a task says comes back as it was, with directories that are no text.
    #[test]
    fn a_step_comes_back_as_it_was() {
        let base = PathBuf::from(OsString::from_vec(b"/w\xff".to_vec()));
        let plan = SnapshotPlan { roots: vec!["src".into()], ..SnapshotPlan::default() };
        let spec = CommandSpec {
            env: BTreeMap::from([("A".to_owned(), "é".to_owned())]),
            stdin: Some("read this. {hint}".to_owned()),
            hint: Some(HintBy::Stdin),
            first_hint: Some("first".to_owned()),
            review: Some(Box::new(ReviewPlan { whole_file: true, ..ReviewPlan::default() })),
            snapshot: Some(Box::new(Protected { base, plan })),
            ..CommandSpec::new(["llm"])
        };
        assert_eq!(CommandSpec::from_payload(&spec.to_payload()).unwrap(), spec);
    }

    /// R-T6: a hint stands where the command asks for it, else at the end of what it reads; never in a command that does not
    /// ask.
    #[test]
    fn a_hint_is_handed_on_as_the_command_asks() {
        let plain = CommandSpec::new(["find", "{hint}"]);
        assert_eq!(plain.told(Some("x")), plain);
        let stdin = |text: Option<&str>, by, hint| {
            let spec =
                CommandSpec { stdin: text.map(str::to_owned), hint: Some(by), ..CommandSpec::new(["cat"]) };
            spec.told(hint).stdin
        };
        assert_eq!(stdin(Some("a {hint} b"), HintBy::Env, Some("H\0")), Some("a H  b".into()));
        assert_eq!(stdin(Some("a {hint}"), HintBy::Stdin, Some("H")), Some("a H".into()));
        assert_eq!(stdin(Some("a"), HintBy::Stdin, Some("H")), Some("a\n\nH".into()));
        assert_eq!(stdin(Some("a"), HintBy::Env, Some("H")), Some("a".into()));
        assert_eq!(stdin(None, HintBy::Stdin, Some("H")), Some("H".into()));
        assert_eq!(stdin(None, HintBy::Stdin, None), Some(String::new()));
        assert_eq!(stdin(None, HintBy::Env, Some("H")), None);
    }
}
