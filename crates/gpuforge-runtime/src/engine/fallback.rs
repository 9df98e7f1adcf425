//! Device fallback: opens the first device of a list, in order of preference, that can be opened.

use std::sync::Arc;

use super::{Engine, EngineError, Opener};

/// Opens the first of several devices that opens.
pub struct FallbackOpener {
    openers: Vec<(String, Box<dyn Opener>)>,
}

impl FallbackOpener {
    /// Devices by name, the preferred one first.
    pub fn new(openers: Vec<(String, Box<dyn Opener>)>) -> Self {
        FallbackOpener { openers }
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.openers.iter().map(|(name, _)| name.as_str())
    }
}

impl Opener for FallbackOpener {
    /// The first that opens; when none does, the error lists the error of each.
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let mut errors = Vec::new();
        for (name, opener) in &self.openers {
            match opener.open() {
                Ok(engine) => return Ok(engine),
                Err(error) => errors.push(format!("{name}: {error}")),
            }
        }
        let reason = if errors.is_empty() { "no device is allowed".to_owned() } else { errors.join("; ") };
        Err(EngineError::Unavailable { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::dummy::{DummyOpener, DummyScript},
        units::Bytes,
    };

    struct Broken;

    impl Opener for Broken {
        fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
            Err(EngineError::Unavailable { reason: "unplugged".to_owned() })
        }
    }

    #[test]
    fn next_device_is_opened_and_all_errors_are_listed() {
        let dummy = DummyOpener::new(Bytes::mib(1), DummyScript::default());
        let fallback =
            FallbackOpener::new(vec![("a".into(), Box::new(Broken)), ("b".into(), Box::new(dummy.clone()))]);
        assert!(fallback.open().is_ok() && dummy.opened() == 1);
        let broken =
            FallbackOpener::new(vec![("a".into(), Box::new(Broken)), ("b".into(), Box::new(Broken))]);
        let error = broken.open().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("a: ") && error.contains("b: ") && error.contains("unplugged"), "{error}");
        assert!(FallbackOpener::new(Vec::new()).open().is_err());
    }
}
