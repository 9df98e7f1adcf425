//! Property test of the compiler: random verified IR and decoded bytes through the JIT and the interpreter, bit for bit.

mod scan;

use super::{
    differential::{Decoded, check, check_bytes, forms},
    ir::random::{Rng, Shape, program},
    target,
    verify::verify,
};

/// Programs of the normal test run, and of the long one.
const PROGRAMS: u64 = 3_000;
const LONG_PROGRAMS: u64 = 100_000;
/// Inputs of the decoder.
const DECODED: u64 = 3_000;

fn check_programs(seeds: std::ops::Range<u64>) {
    if !target::is_supported() {
        println!("skipped: no JIT backend for this CPU");
        return;
    }
    let mut runs = 0u64;
    for seed in seeds.clone() {
        let mut rng = Rng(seed);
        let shape = Shape::random(&mut rng);
        let ir = program(&mut rng, shape);
        assert_eq!(verify(&ir), Ok(()), "the generator made what the verifier rejects, seed {seed}: {ir:#?}");
        for form in forms(&ir) {
            if let Err(why) = check(&ir, form, rng.next()) {
                panic!("seed {seed}, {form:?}: {why}\n{ir:#?}");
            }
            runs += 1;
        }
    }
    assert!(runs >= 3 * (seeds.end - seeds.start), "every program has at least three forms");
}

#[test]
fn random_programs_compute_the_same_bits_as_the_interpreter() {
    check_programs(0..PROGRAMS);
}

/// `cargo test -p gpuforge-indicators --lib -- --ignored a_hundred_thousand`
#[test]
#[ignore = "a hundred thousand programs take about a minute"]
fn a_hundred_thousand_random_programs_compute_the_same_bits() {
    check_programs(PROGRAMS..PROGRAMS + LONG_PROGRAMS);
}

/// The decoder of the fuzz target, on random bytes: what the verifier accepts is compiled and computes the same bits.
#[test]
fn decoded_bytes_compute_the_same_bits_as_the_interpreter() {
    if !target::is_supported() {
        println!("skipped: no JIT backend for this CPU");
        return;
    }
    let mut accepted = 0;
    for seed in 0..DECODED {
        let mut rng = Rng(seed);
        let length = rng.below(160);
        let bytes: Vec<u8> = (0..length).map(|_| rng.next() as u8).collect();
        match check_bytes(&bytes) {
            Ok(Decoded::Rejected) => {}
            Ok(Decoded::Ran(forms)) => {
                assert!(forms >= 3, "every program has at least three forms");
                accepted += 1;
            }
            Err(why) => panic!("seed {seed}: {why}\nbytes {bytes:?}"),
        }
    }
    // Both happen: a decoder that makes only what is rejected, or never, tests half.
    assert!(accepted > DECODED / 5 && accepted < DECODED, "{accepted} of {DECODED} were accepted");
}
