//! The ways in which a secret may be written: as it is, in JSON, in JSON inside JSON, in an address, and in base64.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

/// Adds every way in which this value may stand in a text.
pub(super) fn ways(value: &str, ways: &mut Vec<String>) {
    let json = in_json(value);
    ways.extend([value.to_owned(), in_json(&json), json]);
    ways.extend([in_an_address(value, false), in_an_address(value, true)]);
    for before in 0..3 {
        let base64 = in_base64(value, before);
        ways.extend([base64.replace('+', "-").replace('/', "_"), base64]);
    }
}

fn in_json(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn in_an_address(value: &str, small: bool) -> String {
    let mut written = String::with_capacity(value.len());
    for byte in value.bytes() {
        let done = match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                written.push(char::from(byte));
                Ok(())
            }
            byte if small => write!(written, "%{byte:02x}"),
            byte => write!(written, "%{byte:02X}"),
        };
        // A text takes all that is written to it.
        debug_assert!(done.is_ok());
    }
    written
}

/// The value inside a longer text in base64, where so many bytes stand before it in its group of three: the signs that depend on
/// nothing but the value.
fn in_base64(value: &str, before: usize) -> String {
    let bytes = [&[0; 2][..before], value.as_bytes()].concat();
    let written = STANDARD_NO_PAD.encode(&bytes);
    let whole = bytes.len() * 8 / 6;
    written[(before * 8).div_ceil(6)..whole].to_owned()
}
