//! Fuzz target: `explain`, the diagnosis of a log: cleaning, prefilter, patterns, root cause.
#![no_main]

use gpuforge_env::explain::{HostEvidence, PatternDb, explain};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static PATTERNS: LazyLock<PatternDb> = LazyLock::new(PatternDb::embedded);

fuzz_target!(|data: &[u8]| {
    explain(data, &PATTERNS, &HostEvidence::default())
        .expect("bytes in memory can be read, our patterns compile");
});
