//! How does a device reduce? One dispatch per level: blocks of elements, then blocks of what is known of blocks.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, Call, Kernel, TwinError, floats, put_words, words};

use super::{BLOCK, LANES, Pair, What};
use crate::{OpError, Variant, record::word};

/// One dispatch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    pub(super) what: What,
    /// Reads elements, not pairs.
    pub(super) first: bool,
    pub(super) variant: Variant,
}

impl Level {
    pub(super) fn blocks_per_group(self) -> u64 {
        u64::from(self.variant.group * self.variant.width) / LANES as u64
    }

    /// `[blocks in all, elements or pairs of a row, blocks of a row, elements of a row at the beginning]`.
    pub(super) fn params(
        self,
        op: &'static str,
        [all, left, blocks, n]: [u64; 4],
        last: bool,
    ) -> Result<[u32; 8], OpError> {
        let squares = self.first && self.what == What::Norm;
        let finish = match self.what {
            What::Mean => 1,
            What::Norm => 2,
            _ => 0,
        };
        let flip = if self.what.least() { u32::MAX } else { 0 };
        let count = (n as f32).to_bits();
        let choice = if self.what.adds() { u32::from(squares) } else { flip };
        // The last word is a zero that no compiler knows of; see the shader.
        Ok([word(op, all)?, word(op, left)?, word(op, blocks)?, choice, u32::from(last), finish, count, 0])
    }

    pub(super) fn kernel(self) -> Arc<Kernel> {
        let (name, text) = match (self.what.adds(), self.what.is_index()) {
            (true, _) => ("sum", include_str!("../../shader/reduce_sum.wgsl")),
            (_, false) => ("extreme", include_str!("../../shader/reduce_extreme.wgsl")),
            (_, true) => ("arg-extreme", include_str!("../../shader/reduce_extreme.wgsl")),
        };
        let Variant { group, width, .. } = self.variant;
        let wide = |scalar: &str| if width == 4 { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        let wgsl = text
            .replace("GROUP", &group.to_string())
            .replace("WIDTH", &width.to_string())
            .replace("BLOCK", &BLOCK.to_string())
            .replace("WIDEF", &wide("f32"))
            .replace("WIDE", &wide("u32"))
            .replace("[c]", if width == 4 { "[c]" } else { "" })
            .replace("INDEX", if self.what.is_index() { "true" } else { "false" });
        let what = self.what;
        let first = self.first;
        Arc::new(Kernel {
            name: name.into(),
            wgsl: wgsl.into(),
            entry: if first { "elements" } else { "pairs" },
            bindings: vec![Access::Read, Access::Write],
            twin: Arc::new(move |call| twin(what, first, call)),
        })
    }
}

fn twin(what: What, first: bool, call: &mut Call<'_>) -> Result<(), TwinError> {
    let refuse =
        || TwinError { kernel: what.name().into(), why: "needs 7 parameters, 1 input, 1 output".into() };
    let ([all, left, blocks, _, last, _, count, ..], [input], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refuse());
    };
    let (left, blocks) = (*left as usize, (*blocks).max(1) as usize);
    let (elements, pairs): (Vec<f32>, Vec<Pair>) = if first {
        (floats(input).collect(), Vec::new())
    } else {
        let all: Vec<u32> = words(input).collect();
        (Vec::new(), all.as_chunks().0.to_vec())
    };
    let n = f32::from_bits(*count) as usize;
    let done = (0..*all as usize).flat_map(|block| {
        let (row, start) = (block / blocks, block % blocks * BLOCK);
        let range = row * left + start..row * left + (start + BLOCK).min(left);
        let pair = if first {
            let x = elements.get(range).unwrap_or_default();
            let [known, at] = what.exact(what.rough(x, 0), x);
            [known, if what.is_index() { at + start as u32 } else { at }]
        } else {
            what.merge(pairs.get(range).unwrap_or_default())
        };
        if *last == 1 { vec![what.finish(pair, n)] } else { pair.to_vec() }
    });
    put_words(out, done);
    Ok(())
}
