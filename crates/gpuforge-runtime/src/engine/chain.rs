//! Which device comes next when one cannot be opened? Openers in the order of preference.

use std::sync::Arc;

use super::{Engine, EngineError, Opener};

/// Opens the first of several devices that can be opened.
pub struct Chain {
    links: Vec<(String, Box<dyn Opener>)>,
}

impl Chain {
    /// Devices by name, the preferred one first.
    pub fn new(links: Vec<(String, Box<dyn Opener>)>) -> Self {
        Chain { links }
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.links.iter().map(|(name, _)| name.as_str())
    }
}

impl Opener for Chain {
    /// The first that opens; when none does, the error says what each of them said.
    fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let mut said = Vec::new();
        for (name, opener) in &self.links {
            match opener.open() {
                Ok(engine) => return Ok(engine),
                Err(error) => said.push(format!("{name}: {error}")),
            }
        }
        let reason = if said.is_empty() { "no device is allowed".to_owned() } else { said.join("; ") };
        Err(EngineError::Unavailable { reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::dummy::{DummyOpener, Script},
        units::Bytes,
    };

    struct Broken;

    impl Opener for Broken {
        fn open(&self) -> Result<Arc<dyn Engine>, EngineError> {
            Err(EngineError::Unavailable { reason: "unplugged".to_owned() })
        }
    }

    #[test]
    fn the_next_one_is_opened_and_all_words_are_kept() {
        let dummy = DummyOpener::new(Bytes::mib(1), Script::default());
        let chain = Chain::new(vec![("a".into(), Box::new(Broken)), ("b".into(), Box::new(dummy.clone()))]);
        assert!(chain.open().is_ok() && dummy.opened() == 1);
        let broken = Chain::new(vec![("a".into(), Box::new(Broken)), ("b".into(), Box::new(Broken))]);
        let error = broken.open().err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("a: ") && error.contains("b: ") && error.contains("unplugged"), "{error}");
        assert!(Chain::new(Vec::new()).open().is_err());
    }
}
