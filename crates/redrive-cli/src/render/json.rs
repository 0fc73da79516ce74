//! JSON for machines: one document and a line break. On a terminal it is indented.
//!
//! JSON itself escapes only what lies below a space. DEL, the C1 controls and the characters that reorder
//! text can act on a terminal too, so they are written as `\u….` as well.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter};

use crate::escape::is_dangerous;

/// Writes one document.
pub(crate) fn write<T: Serialize + ?Sized>(
    value: &T,
    out: &mut dyn Write,
    pretty: bool,
) -> serde_json::Result<()> {
    if pretty {
        let formatter = Harmless(PrettyFormatter::new());
        value.serialize(&mut serde_json::Serializer::with_formatter(out, formatter))
    } else {
        value.serialize(&mut serde_json::Serializer::with_formatter(out, Harmless(CompactFormatter)))
    }
}

/// A formatter that writes dangerous characters as escapes and leaves the rest to the one inside.
struct Harmless<F>(F);

macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*);)+) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $arg: $type)*) -> io::Result<()> {
            self.0.$name(writer $(, $arg)*)
        })+
    };
}

impl<F: Formatter> Formatter for Harmless<F> {
    delegate! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
        write_char_escape(escape: CharEscape);
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_dangerous(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// R-C2: JSON is harmless on a terminal and still says the same.
        #[test]
        fn what_is_written_is_harmless_and_can_be_read_again(text in any::<String>(), pretty in any::<bool>()) {
            let mut out = Vec::new();
            write(&[&text], &mut out, pretty).unwrap();
            let written = String::from_utf8(out).unwrap();
            prop_assert!(!written.replace('\n', "").chars().any(is_dangerous));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), vec![text]);
        }
    }
}
