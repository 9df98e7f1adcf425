//! How does text reach the user? stdout is data, stderr is talk.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde::Serialize;

use crate::{
    args::When,
    format::{width, wrap},
};

/// Where and how to print.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    color: ColorChoice,
}

/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();
/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Things to look at.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Things that failed.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Side notes.
pub(crate) const DIM: Style = Style::new().dimmed();

impl Output {
    pub(crate) fn new(json: bool, quiet: bool, verbose: bool, when: When) -> Self {
        let color = match when {
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        };
        Output { json, quiet, verbose, color }
    }

    /// May anything but results be said?
    pub(crate) fn talks(&self) -> bool {
        !self.quiet && !self.json
    }

    /// Prints finished text to stdout in one write.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        let mut out =
            AutoStream::new(io::stdout().lock(), self.choice(io::IsTerminal::is_terminal(&io::stdout())));
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Prints one JSON document to stdout.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        io::stdout().lock().write_all(&text)?;
        Ok(())
    }

    /// Prints a warning with its next step to stderr, unless quiet.
    pub(crate) fn warn(&self, source: &str, message: &str, hint: Option<&str>) {
        if !self.quiet {
            self.talk(CARE, "warning", &format!("{source}: {message}"), hint);
        }
    }

    /// Prints a line that is neither result nor warning to stderr, unless quiet or JSON.
    pub(crate) fn note(&self, label: &str, message: &str) {
        if self.talks() {
            self.talk(DIM, label, message, None);
        }
    }

    /// Prints an error with its next step to stderr.
    pub(crate) fn error(&self, message: &str, hint: Option<&str>) {
        if self.json {
            let error = serde_json::json!({"error": {"message": message, "hint": hint}});
            // Nobody is left to tell when stderr is closed.
            let _ = writeln!(io::stderr().lock(), "{error}");
        } else {
            self.talk(BAD, "error", message, hint);
        }
    }

    fn talk(&self, style: Style, label: &str, message: &str, hint: Option<&str>) {
        let mut err =
            AutoStream::new(io::stderr().lock(), self.choice(io::IsTerminal::is_terminal(&io::stderr())));
        // A person reads lines that fit; a program reads one line a message.
        // Lines that were laid out, such as a text with a caret under it, stay as they are.
        let laid = message.contains('\n');
        let fit = |text: &str, label: &str| match io::IsTerminal::is_terminal(&io::stderr()) && !laid {
            true => wrap(&format!("{label}: {text}"), 0, width()).split_off(label.len() + 1),
            false => format!(" {text}\n"),
        };
        let _ = write!(err, "{style}{label}:{style:#}{}", fit(message, label));
        if let Some(hint) = hint {
            let _ = write!(err, "{DIM}hint:{DIM:#}{}", fit(hint, "hint"));
        }
    }

    /// `auto` follows the terminal and NO_COLOR; anstream's own choice knows both.
    fn choice(&self, terminal: bool) -> ColorChoice {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        match self.color {
            ColorChoice::Auto if !terminal || no_color => ColorChoice::Never,
            other => other,
        }
    }
}
