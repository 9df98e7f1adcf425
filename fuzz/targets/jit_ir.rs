//! Fuzz target: JIT IR. Bytes are decoded to a program; what the verifier accepts is compiled and must compute the same bits as
//! the interpreter, in every form of the loop.
#![no_main]

use gpuforge_indicators::fuzzing::jit_ir;
use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    match jit_ir(data) {
        Ok(_) => Corpus::Keep,
        Err(why) => panic!("{why}"),
    }
});
