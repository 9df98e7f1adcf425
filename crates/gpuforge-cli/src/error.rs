//! How does a failure end the program? Printed once, with its next step, and an exit code.

use std::process::ExitCode;

use anyhow::Error;
use gpuforge::{
    forge::ForgeError,
    machine::UnknownDevice,
    settings::{Place, SettingsError},
};

use crate::context::Context;

/// A failure with its next step.
#[derive(Debug)]
pub(crate) struct Hinted {
    message: String,
    hint: String,
    /// What the program ends with.
    code: u8,
}

impl Hinted {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted { message: message.into(), hint: hint.into(), code: 1 }
    }

    /// What was typed cannot be meant: exit code 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted::new(message, hint).ending_with(2)
    }

    /// Ends the program with this code.
    pub(crate) fn ending_with(self, code: u8) -> Self {
        Hinted { code, ..self }
    }
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// Ends the run: 0 when all went well or the reader of a pipe has seen enough, 2 after wrong usage, 3 where `compare` could
/// judge nothing, else 1.
pub(crate) fn report(result: anyhow::Result<()>, context: &Context) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            context.out.error(&format!("{error:#}"), hint(&error).as_deref());
            ExitCode::from(code(&error))
        }
    }
}

fn code(error: &Error) -> u8 {
    // A device that cannot be and one that is not there are the same mistake.
    let device = error.downcast_ref::<SettingsError>().is_some_and(
        |e| matches!(e, SettingsError::WrongValue { place: Place::Flag(_), key, .. } if key.name == "device"),
    );
    match error.downcast_ref::<Hinted>() {
        Some(hinted) => hinted.code,
        None if device || unknown_device(error).is_some() => 2,
        None => 1,
    }
}

/// A device that is not there.
fn unknown_device(error: &Error) -> Option<&UnknownDevice> {
    match error.downcast_ref::<ForgeError>() {
        Some(ForgeError::Device(unknown)) => Some(unknown),
        _ => error.downcast_ref(),
    }
}

fn hint(error: &Error) -> Option<String> {
    let settings = error.downcast_ref::<SettingsError>().and_then(SettingsError::hint);
    let device = unknown_device(error).map(UnknownDevice::hint);
    settings.or(device).or_else(|| error.downcast_ref::<Hinted>().map(|h| h.hint.clone()))
}

fn is_broken_pipe(error: &Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
