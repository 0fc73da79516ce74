//! So many in a time: `10/s`, `600/m`, `1000/h`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// So many in a time.
///
/// ```
/// use redrive_policy::protection::Rate;
///
/// let rate: Rate = "10/s".parse().unwrap();
/// assert_eq!((rate.count, rate.every_us()), (10, 100_000));
/// assert_eq!(rate.to_string(), "10/s");
/// assert!("0/s".parse::<Rate>().is_err() && "10".parse::<Rate>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how many milliseconds.
    pub per_ms: u64,
}

const UNITS: [(&str, u64); 3] = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
/// More than that nobody can tell apart.
const MOST: u32 = 1_000_000;

impl Rate {
    /// So many in a second.
    pub const fn per_second(count: u32) -> Rate {
        Rate { count, per_ms: 1_000 }
    }

    /// How far apart two are, in microseconds.
    pub fn every_us(&self) -> i64 {
        let every = self.per_ms.saturating_mul(1_000) / u64::from(self.count.max(1));
        i64::try_from(every).unwrap_or(i64::MAX).max(1)
    }
}

/// A rate that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRate(String);

impl fmt::Display for BadRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a rate; write a whole number and s, m or h: 10/s, 600/m, 1000/h", self.0)
    }
}

impl std::error::Error for BadRate {}

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Rate, BadRate> {
        let bad = || BadRate(text.chars().take(80).collect());
        let (count, unit) = text.trim().split_once('/').ok_or_else(bad)?;
        let per_ms = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(bad)?.1;
        let digits = count.trim();
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let count: u32 = whole.then(|| digits.parse().ok()).flatten().ok_or_else(bad)?;
        if count == 0 || count > MOST { Err(bad()) } else { Ok(Rate { count, per_ms }) }
    }
}

impl TryFrom<String> for Rate {
    type Error = BadRate;

    fn try_from(text: String) -> Result<Rate, BadRate> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> String {
        rate.to_string()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, per_ms)| *per_ms == self.per_ms).map_or("s", |(name, _)| *name);
        write!(f, "{}/{unit}", self.count)
    }
}
