//! How does a failure end the program? Printed once, with its next step, and an exit code.

use std::process::ExitCode;

use anyhow::Error;
use gpuforge::settings::SettingsError;

use crate::context::Context;

/// A failure with its next step.
#[derive(Debug)]
pub(crate) struct Hinted {
    message: String,
    hint: String,
    /// Was the command typed wrongly?
    usage: bool,
}

impl Hinted {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted { message: message.into(), hint: hint.into(), usage: false }
    }

    /// What was typed cannot be meant: exit code 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted { usage: true, ..Hinted::new(message, hint) }
    }
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// Ends the run: 0 when all went well or the reader of a pipe has seen enough, 2 after wrong usage, else 1.
pub(crate) fn report(result: anyhow::Result<()>, context: &Context) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            context.out.error(&format!("{error:#}"), hint(&error).as_deref());
            let usage = error.downcast_ref::<Hinted>().is_some_and(|h| h.usage);
            if usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn hint(error: &Error) -> Option<String> {
    let settings = error.downcast_ref::<SettingsError>().and_then(SettingsError::hint);
    settings.or_else(|| error.downcast_ref::<Hinted>().map(|h| h.hint.clone()))
}

fn is_broken_pipe(error: &Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
