//! Errors of the binary: a message with a hint, printed once, and the exit code.

use anyhow::Error;
use gpuforge::{
    detection::UnknownDevice,
    forge::ForgeError,
    settings::{SettingLocation, SettingsError},
};

use crate::context::Context;

/// An error with a hint: the next step for the user.
#[derive(Debug)]
pub(crate) struct Hinted {
    message: String,
    hint: String,
    /// Exit code.
    code: u8,
}

impl Hinted {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted { message: message.into(), hint: hint.into(), code: 1 }
    }

    /// Wrong usage: exit code 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Hinted::new(message, hint).with_code(2)
    }

    /// Sets the exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Hinted { code, ..self }
    }
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// Prints the error and returns the exit code: 0 for success or a closed pipe (`| head`), 2 for wrong usage, 3 where `compare`
/// could judge nothing, else 1.
pub(crate) fn report(result: anyhow::Result<()>, context: &Context) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            context.out.error(&format!("{error:#}"), hint(&error).as_deref());
            code(&error)
        }
    }
}

fn code(error: &Error) -> u8 {
    // An invalid device and one that does not exist are the same mistake.
    let device = error.downcast_ref::<SettingsError>().is_some_and(
        |e| matches!(e, SettingsError::WrongValue { location: SettingLocation::Flag(_), key, .. } if key.name == "device"),
    );
    match error.downcast_ref::<Hinted>() {
        Some(hinted) => hinted.code,
        None if device || unknown_device(error).is_some() => 2,
        None => 1,
    }
}

/// The error of a device that does not exist.
fn unknown_device(error: &Error) -> Option<&UnknownDevice> {
    match error.downcast_ref::<ForgeError>() {
        Some(ForgeError::UnknownDevice(unknown)) => Some(unknown),
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
