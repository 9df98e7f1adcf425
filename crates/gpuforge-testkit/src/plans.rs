//! Test plans with expected outputs, computed by plain Rust that is independent of engines.

use std::ops::Range;

use gpuforge_runtime::{
    plan::{Plan, PlanError},
    runner::SplittableBatch,
    units::Bytes,
};

use crate::kernels::{groups, mix};

/// Deterministic pseudo-random numbers (xorshift32).
pub fn numbers(n: u32, seed: u32) -> Vec<u32> {
    let mut state = seed | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        })
        .collect()
}

/// Bytes of words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn step(a: &[u32], b: &[u32], factor: u32, salt: u32) -> Vec<u32> {
    let mixed = |(i, (a, b)): (u32, (&u32, &u32))| {
        a.wrapping_mul(factor).wrapping_add(*b).rotate_left(7) ^ salt.wrapping_add(i)
    };
    (0..).zip(a.iter().zip(b)).map(mixed).collect()
}

/// A chain of uploads, dispatches, copies, frees and downloads, and its expected outputs.
pub fn chain(n: u32, rounds: u32) -> Result<(Plan, Vec<Vec<u8>>), PlanError> {
    let mut plan = Plan::new("chain");
    let kernel = mix();
    let size = Bytes(u64::from(n) * 4);
    let (mut a, mut b) = (numbers(n, 1), numbers(n, 2));
    let (mut slot_a, mut slot_b) = (plan.upload(bytes(&a), "chain a")?, plan.upload(bytes(&b), "chain b")?);
    let mut expected = Vec::new();
    for round in 0..rounds {
        let (factor, salt) = (round.wrapping_mul(2_654_435_761) | 1, round);
        let out = plan.slot(size, "chain out");
        plan.dispatch(&kernel, &[slot_a, slot_b, out], &[n, factor, salt], groups(n))?;
        let next = step(&a, &b, factor, salt);
        plan.free(slot_a)?;
        (slot_a, a) = (slot_b, b);
        (slot_b, b) = (out, next);
        if round % 4 == 1 {
            let copied = plan.copy(slot_b, "chain copy")?;
            plan.free(slot_b)?;
            slot_b = copied;
        }
        if round % 8 == 3 {
            plan.free(slot_a)?;
            a = numbers(n, round + 3);
            slot_a = plan.upload(bytes(&a), "chain fresh")?;
        }
        if round % 10 == 9 || round + 1 == rounds {
            plan.download(slot_b)?;
            expected.push(bytes(&b));
        }
    }
    Ok((plan, expected))
}

/// A splittable batch of independent items of `words` words; a chunk needs memory in proportion to its items.
pub struct ItemBatch {
    /// Number of items.
    pub items: usize,
    /// Words per item.
    pub words: u32,
}

impl ItemBatch {
    /// Expected output of item `i`.
    pub fn expected(&self, i: usize) -> Vec<u8> {
        let seed = u32::try_from(i).unwrap_or(0);
        bytes(&step(&numbers(self.words, seed * 2 + 1), &numbers(self.words, seed * 2 + 5), 3, seed))
    }
}

impl SplittableBatch for ItemBatch {
    fn len(&self) -> usize {
        self.items
    }

    fn record(&self, items: Range<usize>) -> Result<Plan, PlanError> {
        let mut plan = Plan::new("items");
        let kernel = mix();
        let mut outs = Vec::new();
        for i in items {
            let seed = u32::try_from(i).unwrap_or(0);
            let a = plan.upload(bytes(&numbers(self.words, seed * 2 + 1)), "item a")?;
            let b = plan.upload(bytes(&numbers(self.words, seed * 2 + 5)), "item b")?;
            let out = plan.slot(Bytes(u64::from(self.words) * 4), "item out");
            plan.dispatch(&kernel, &[a, b, out], &[self.words, 3, seed], groups(self.words))?;
            outs.push(out);
        }
        for out in outs {
            plan.download(out)?;
        }
        Ok(plan)
    }
}
