//! Fuzz target: pasted tool output. Every format of `parsers::FORMATS` by itself, then the inventory of `detect --from`.
#![no_main]

use gpuforge_detect::{from_text, parsers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = parsers::normalise(&parsers::decode(data));
    for format in &parsers::FORMATS {
        (format.parse)(&text);
    }
    from_text(data);
});
