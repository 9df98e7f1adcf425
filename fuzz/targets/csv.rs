//! Fuzz target: CSV reading. The first byte chooses the reader's options; typed formats are other targets.
#![no_main]

use gpuforge_frame::read::{Input, ReadOptions};
use gpuforge_fuzz_targets::{allow_decoder_panics, must_not_panic, reader};
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(init: allow_decoder_panics(), |data: &[u8]| -> Corpus {
    let Some((choice, text)) = data.split_first() else { return Corpus::Reject };
    if [&b"PAR1"[..], b"ARROW1", &[0xff; 4]].iter().any(|magic| text.starts_with(magic)) {
        return Corpus::Reject;
    }
    must_not_panic(|| {
        // From a pipe, and of a few also from a file: the two have different buffers.
        let stdin: Box<dyn std::io::Read + Send> = Box::new(std::io::Cursor::new(text.to_vec()));
        let options = ReadOptions { stdin: Some(stdin), ..reader::options(usize::from(*choice)) };
        reader::bars(&Input::from("-"), options);
        if choice >> 6 == 3 {
            reader::table(&reader::file(text, "csv"));
        }
    });
    Corpus::Keep
});
