//! Printing: results to stdout, diagnostics (warnings, notes, errors) to stderr; colour, JSON mode, quiet mode.

use std::io::{self, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde::Serialize;

use crate::{
    args::ColorWhen,
    format::{width, wrap},
};

/// Output mode of a run.
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    color: ColorChoice,
}

/// Style of headings.
pub(crate) const HEAD: Style = Style::new().bold();
/// Style of success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of warnings.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Style of failures.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of secondary text.
pub(crate) const DIM: Style = Style::new().dimmed();

impl Output {
    pub(crate) fn new(json: bool, quiet: bool, verbose: bool, when: ColorWhen) -> Self {
        let color = match when {
            ColorWhen::Auto => ColorChoice::Auto,
            ColorWhen::Always => ColorChoice::Always,
            ColorWhen::Never => ColorChoice::Never,
        };
        Output { json, quiet, verbose, color }
    }

    /// May anything but results be printed? Not with --quiet or --json.
    pub(crate) fn prints_notes(&self) -> bool {
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

    /// Prints a warning with its hint to stderr, unless quiet.
    pub(crate) fn warn(&self, source: &str, message: &str, hint: Option<&str>) {
        if !self.quiet {
            self.diagnostic(CARE, "warning", &format!("{source}: {message}"), hint);
        }
    }

    /// Prints a line that is neither result nor warning to stderr, unless quiet or JSON.
    pub(crate) fn note(&self, label: &str, message: &str) {
        if self.prints_notes() {
            self.diagnostic(DIM, label, message, None);
        }
    }

    /// Prints an error with its hint to stderr.
    pub(crate) fn error(&self, message: &str, hint: Option<&str>) {
        if self.json {
            let error = serde_json::json!({"error": {"message": message, "hint": hint}});
            // Nothing can be done when stderr is closed.
            let _ = writeln!(io::stderr().lock(), "{error}");
        } else {
            self.diagnostic(BAD, "error", message, hint);
        }
    }

    fn diagnostic(&self, style: Style, label: &str, message: &str, hint: Option<&str>) {
        let mut err =
            AutoStream::new(io::stderr().lock(), self.choice(io::IsTerminal::is_terminal(&io::stderr())));
        // On a terminal lines are wrapped; in a pipe a message is one line.
        // Preformatted text, such as one with a caret under it, stays as it is.
        let preformatted = message.contains('\n');
        let fit = |text: &str, label: &str| match io::IsTerminal::is_terminal(&io::stderr()) && !preformatted
        {
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
