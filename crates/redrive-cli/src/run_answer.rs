//! The answer of a command under an idempotency key: what it wrote and how it ended, as the store keeps it (design.md §5).
//!
//! The body is its output followed by its errors; two headers say how long each part is, and two more how much was written where
//! not all of it was kept.

use redrive_store::StoredResponse;

/// Whose keys these are: nobody else uses them.
pub(crate) const PRINCIPAL: &str = "run";

const STDOUT: &str = "stdout-bytes";
const STDERR: &str = "stderr-bytes";
const STDOUT_WRITTEN: &str = "stdout-written";
const STDERR_WRITTEN: &str = "stderr-written";

/// What one stream brought: its beginning, and how much there was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Written {
    pub(crate) kept: Vec<u8>,
    pub(crate) written: u64,
}

impl Written {
    /// What is missing of it.
    pub(crate) fn is_cut(&self) -> bool {
        self.written > self.kept.len() as u64
    }
}

/// How a command ended, and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RunAnswer {
    pub(crate) code: u8,
    pub(crate) stdout: Written,
    pub(crate) stderr: Written,
}

impl RunAnswer {
    pub(crate) fn to_stored(&self) -> StoredResponse {
        let number = |name: &str, n: u64| (name.to_owned(), n.to_string().into_bytes());
        let mut headers = vec![
            number(STDOUT, self.stdout.kept.len() as u64),
            number(STDERR, self.stderr.kept.len() as u64),
        ];
        if self.stdout.is_cut() {
            headers.push(number(STDOUT_WRITTEN, self.stdout.written));
        }
        if self.stderr.is_cut() {
            headers.push(number(STDERR_WRITTEN, self.stderr.written));
        }
        let body = [self.stdout.kept.as_slice(), &self.stderr.kept].concat();
        StoredResponse { status: u16::from(self.code), headers, body: Some(body) }
    }

    /// Nothing when it is no answer of a command.
    pub(crate) fn of_stored(stored: &StoredResponse) -> Option<RunAnswer> {
        let number = |name: &str| -> Option<u64> {
            let (_, value) = stored.headers.iter().find(|(own, _)| own == name)?;
            std::str::from_utf8(value).ok()?.parse().ok()
        };
        let body = stored.body.as_deref().unwrap_or_default();
        let (stdout, stderr) = body.split_at_checked(usize::try_from(number(STDOUT)?).ok()?)?;
        if number(STDERR)? != stderr.len() as u64 {
            return None;
        }
        let written = |kept: &[u8], name: &str| Written {
            kept: kept.to_vec(),
            written: number(name).unwrap_or(kept.len() as u64),
        };
        Some(RunAnswer {
            code: u8::try_from(stored.status).ok()?,
            stdout: written(stdout, STDOUT_WRITTEN),
            stderr: written(stderr, STDERR_WRITTEN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I5, design.md §5: what a command wrote comes back to the byte, and what was cut is known to be.
    #[test]
    fn an_answer_survives_the_store() {
        let whole = |bytes: &[u8]| Written { kept: bytes.to_vec(), written: bytes.len() as u64 };
        let cut = Written { kept: vec![0xff, 0, 1], written: 9_000 };
        for answer in [
            RunAnswer::default(),
            RunAnswer { code: 3, stdout: whole(b"out\n"), stderr: whole(b"err") },
            RunAnswer { code: 255, stdout: cut.clone(), stderr: whole(b"") },
            RunAnswer { code: 0, stdout: whole(b""), stderr: cut },
        ] {
            assert_eq!(RunAnswer::of_stored(&answer.to_stored()), Some(answer));
        }
        let foreign = StoredResponse { status: 201, headers: Vec::new(), body: Some(b"{}".to_vec()) };
        assert_eq!(RunAnswer::of_stored(&foreign), None);
        let mut broken = RunAnswer { stdout: whole(b"out"), ..RunAnswer::default() }.to_stored();
        broken.body = Some(Vec::new());
        assert_eq!(RunAnswer::of_stored(&broken), None);
    }
}
