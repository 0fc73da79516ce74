//! Sizes as people write them: `500MB`, `20 MiB`, `4096`.

use std::fmt;

/// The largest size that anything here takes: what a signed 64-bit number holds.
pub(crate) const MAX_BYTES: u64 = i64::MAX as u64;

/// The same as a pattern, for schemas; kept beside the parser, which a test holds to it.
pub(crate) const SIZE_PATTERN: &str = r"^\s*[0-9]+\s*([KMGT]iB|[KkMGT]B|B)?\s*$";

/// A size that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadSize(String);

impl fmt::Display for BadSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a size; write a number of bytes, or a number and a unit: 500MB, 20MiB", self.0)
    }
}

impl std::error::Error for BadSize {}

const UNITS: [(&str, u64); 10] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads a size in bytes. `kB`, `MB`, `GB` and `TB` count in thousands, `KiB` and so on in 1024s.
///
/// ```
/// use redrive_policy::parse_size;
///
/// assert_eq!(parse_size("20MiB"), Ok(20 << 20));
/// assert_eq!(parse_size("1 kB"), Ok(1_000));
/// assert_eq!(parse_size("42"), Ok(42));
/// assert!(parse_size("-1").is_err() && parse_size("1.5GB").is_err() && parse_size("5 apples").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<u64, BadSize> {
    let trimmed = text.trim();
    let with_unit = UNITS.iter().find_map(|(unit, bytes)| Some((trimmed.strip_suffix(unit)?, *bytes)));
    let (number, unit) = with_unit.unwrap_or((trimmed, 1));
    let number = number.trim_end();
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = digits.then(|| number.parse::<u64>().ok()?.checked_mul(unit)).flatten();
    bytes.ok_or_else(|| BadSize(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    /// R-T3: limits of snapshots are read as written.
    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in
            [("0", 0), ("7B", 7), ("3 GB", 3_000_000_000), ("2TiB", 2 << 40), (" 1KiB ", 1024), ("1KB", 1000)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "B", "MiB", "+1", "1e3", "1.5GB", "1 MiBs", "20mib", "99999999999999TB", "１MB"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        /// R-P7: the schema's pattern and the parser agree on every size that fits.
        #[test]
        fn pattern_and_parser_agree(text in "\\s?[0-9a1]{0,3}\\s?[KkMGTBi]{0,3}\\s?") {
            let by_pattern = Regex::new(SIZE_PATTERN).unwrap().is_match(&text);
            prop_assert_eq!(parse_size(&text).is_ok(), by_pattern, "{:?}", text);
        }
    }
}
