//! Colours: success green, error red, warning yellow. Text reads the same without them.

use anstyle::{AnsiColor, Style};

use crate::view::Tone;

const fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Bad => AnsiColor::Red.on_default(),
        Tone::Warn => AnsiColor::Yellow.on_default(),
        Tone::Dim => Style::new().dimmed(),
        Tone::Strong => Style::new().bold(),
        Tone::Heading => AnsiColor::Cyan.on_default().bold(),
        Tone::Alarm => AnsiColor::Red.on_default().bold(),
    }
}

/// The text in the colour of its tone.
pub(crate) fn paint(text: &str, tone: Tone) -> String {
    if tone == Tone::Plain || text.is_empty() {
        return text.to_owned();
    }
    let style = style(tone);
    format!("{style}{text}{style:#}")
}
