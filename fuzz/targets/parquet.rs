//! Fuzz target: Parquet reading, as bars and as a table of numbers. The length of the input chooses the reader's options.
#![no_main]

use gpuforge_frame::read::Input;
use gpuforge_fuzz_targets::{allow_decoder_panics, must_not_panic, reader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: allow_decoder_panics(), |data: &[u8]| {
    must_not_panic(|| {
        let path = reader::file(data, "parquet");
        reader::bars(&Input::from(path.as_path()), reader::options(data.len()));
        if data.len() % 3 == 0 {
            reader::table(&path);
        }
    });
});
