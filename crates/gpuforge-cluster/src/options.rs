//! Session options: `SET gpuforge.device = 'auto'`.

use datafusion::{
    common::{config::ConfigExtension, extensions_options},
    prelude::SessionConfig,
};

use crate::spec::Spec;

extensions_options! {
    /// Session settings.
    pub struct Options {
        /// Where indicators are computed: `cpu` (the same bits on every machine), `auto` or `gpu`.
        pub device: String, default = "cpu".to_owned()
        /// Bytes of bars and results of one group of symbols; 0 is the default.
        pub group_bytes: u64, default = 0
        /// Use the pandas convention instead of TA-Lib's.
        pub pandas: bool, default = false
    }
}

impl ConfigExtension for Options {
    const PREFIX: &'static str = "gpuforge";
}

impl Options {
    /// Settings of a session, or the defaults.
    pub fn of(config: &SessionConfig) -> Self {
        config.options().extensions.get::<Options>().cloned().unwrap_or_default()
    }

    /// Applies the settings to a specification.
    pub fn apply(&self, spec: Spec) -> Spec {
        Spec { device: self.device.clone(), group_bytes: self.group_bytes, pandas: self.pandas, ..spec }
    }
}
