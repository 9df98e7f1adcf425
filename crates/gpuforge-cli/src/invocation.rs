//! Invocation of this process: its arguments, and how it is started again for a child process.
//!
//! As an executable that is its own path. Inside Python it is the interpreter with whatever made it run us (`-m gpuforge`, or the
//! script that pip wrote), which only Python knows.

use std::{ffi::OsString, path::PathBuf, sync::OnceLock};

use gpuforge::hardware::probe::isolate::ChildProgram;

/// Arguments of a run and the program behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// What starts this program again, when arguments are appended; `None` where nobody knows.
    pub program: Option<ChildProgram>,
}

impl Invocation {
    /// Of an executable: started again by its own path.
    pub fn of_executable(arguments: impl Iterator<Item = OsString>) -> Invocation {
        Invocation {
            arguments: arguments.collect(),
            program: std::env::current_exe().ok().map(ChildProgram::from),
        }
    }

    /// Of an interpreter: `launcher` is its path and the arguments that make it run this program.
    pub fn of_interpreter(
        launcher: impl IntoIterator<Item = OsString>,
        arguments: Vec<OsString>,
    ) -> Invocation {
        let mut launcher = launcher.into_iter();
        let program = launcher.next().filter(|path| !path.is_empty()).map(PathBuf::from);
        Invocation {
            arguments,
            program: program.map(|program| ChildProgram { program, args: launcher.collect() }),
        }
    }
}

/// Set once by [`crate::run`]; commands read it.
static CURRENT: OnceLock<Invocation> = OnceLock::new();

pub(crate) fn set(invocation: Invocation) -> &'static Invocation {
    CURRENT.get_or_init(|| invocation)
}

/// The arguments of this process, lossily as text.
pub(crate) fn words() -> Vec<String> {
    let arguments = CURRENT.get().map_or(&[][..], |current| &current.arguments);
    arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// What starts this program again.
pub(crate) fn program() -> Option<&'static ChildProgram> {
    CURRENT.get()?.program.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_started_again_with_its_own_arguments() {
        let launcher = ["/venv/bin/python", "-m", "gpuforge"].map(OsString::from);
        let invocation = Invocation::of_interpreter(launcher, vec!["detect".into()]);
        let want =
            ChildProgram { program: "/venv/bin/python".into(), args: vec!["-m".into(), "gpuforge".into()] };
        assert_eq!(invocation.program, Some(want));
        // An embedded interpreter does not know its path.
        assert_eq!(Invocation::of_interpreter([OsString::new()], Vec::new()).program, None);
        assert_eq!(Invocation::of_interpreter([], Vec::new()).program, None);
    }
}
