//! A command as a job holds it: what to run, where, and under which umask. The environment is not kept.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

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
    /// The directory claims to be base64 and is not.
    #[error("cwd is not base64")]
    CwdBase64(#[source] base64::DecodeError),
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
}

impl CommandSpec {
    /// A command that runs where and as we do.
    pub fn new(argv: impl IntoIterator<Item = impl Into<OsString>>) -> CommandSpec {
        CommandSpec { argv: argv.into_iter().map(Into::into).collect(), cwd: None, umask: None }
    }

    /// The command as JSON. Arguments are plain text; one that is not UTF-8 is `{"base64": "…"}`, so that every
    /// command comes back byte for byte.
    pub fn to_payload(&self) -> Vec<u8> {
        let wire = Wire {
            argv: self.argv.iter().map(|word| Packed::pack(word.as_bytes().to_vec())).collect(),
            cwd: self.cwd.as_ref().map(|cwd| Packed::pack(cwd.as_os_str().as_bytes().to_vec())),
            umask: self.umask.map(|umask| format!("{umask:04o}")),
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
        let cwd = wire.cwd.map(Packed::unpack).transpose().map_err(BadCommand::CwdBase64)?;
        let cwd = cwd.map(|bytes| without_nul(bytes, || "cwd".to_owned())).transpose()?;
        let umask = wire.umask.map(|text| octal(&text).ok_or(BadCommand::Umask(text))).transpose()?;
        Ok(CommandSpec { argv, cwd: cwd.map(PathBuf::from), umask })
    }
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
            cwd: Some(PathBuf::from(odd)),
            umask: Some(0o27),
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
            (r#"{"argv":["ls"],"env":{}}"#, "unknown field `env`"),
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
}
