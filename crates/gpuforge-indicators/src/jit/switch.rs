//! JIT switch: the environment variable `GPUFORGE_JIT`, read once per process.

use std::sync::OnceLock;

/// Name of the variable.
pub(super) const VARIABLE: &str = "GPUFORGE_JIT";

/// May plans be compiled, and must they be?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitSwitch {
    /// `off`: the kernels compute everything.
    Off,
    /// `on`, and the default: compiled where it pays; the kernels compute what is not.
    #[default]
    On,
    /// `require`: a plan that could have been compiled and was not is a panic that names the reason. For test runs, where a
    /// silent fallback would hide that nothing was tested.
    Require,
}

impl JitSwitch {
    /// The switch of this process: `GPUFORGE_JIT=off|on|require`. A value that is none of them is recorded as a fallback's reason
    /// and taken as `on`.
    pub fn from_env() -> JitSwitch {
        static SWITCH: OnceLock<JitSwitch> = OnceLock::new();
        *SWITCH.get_or_init(|| match std::env::var(VARIABLE) {
            Ok(text) => parse(&text).unwrap_or_else(|| {
                super::guard::note(format!("{VARIABLE}={text} is none of off, on, require: taken as on"));
                JitSwitch::On
            }),
            Err(_) => JitSwitch::On,
        })
    }
}

fn parse(text: &str) -> Option<JitSwitch> {
    match text.trim() {
        "off" => Some(JitSwitch::Off),
        "on" | "" => Some(JitSwitch::On),
        "require" => Some(JitSwitch::Require),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_has_three_values_and_nothing_is_guessed() {
        for (text, want) in [
            ("off", Some(JitSwitch::Off)),
            ("on", Some(JitSwitch::On)),
            ("", Some(JitSwitch::On)),
            (" require ", Some(JitSwitch::Require)),
            ("0", None),
            ("OFF", None),
        ] {
            assert_eq!(parse(text), want, "{text:?}");
        }
    }
}
