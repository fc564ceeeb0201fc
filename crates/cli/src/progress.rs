//! Progress on standard error: a spinner on a terminal, one line for each change elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Between frames of the spinner.
const TICK: Duration = Duration::from_millis(120);

pub(crate) enum Progress {
    Spinner(ProgressBar),
    Lines { last: String },
}

impl Progress {
    pub fn start() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines { last: String::new() };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self::Spinner(bar)
    }

    /// Says where it stands; the same text again says nothing.
    pub fn say(&mut self, text: &str) {
        match self {
            Self::Spinner(bar) => bar.set_message(text.to_owned()),
            Self::Lines { last } if last != text => {
                eprintln!("{text}");
                text.clone_into(last);
            }
            Self::Lines { .. } => {}
        }
    }

    pub fn finish(self) {
        if let Self::Spinner(bar) = self {
            bar.finish_and_clear();
        }
    }
}
