//! Tree reduction on a device: one dispatch per level; blocks of elements first, then blocks of partial results.

use std::sync::Arc;

use gpuforge_runtime::kernel::{Access, CpuReferenceError, Kernel, KernelCall, floats, put_words, words};

use super::{BLOCK, LANES, Partial, Reduction};
use crate::{OpError, Variant, record::word};

/// One level (dispatch) of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    pub(super) reduction: Reduction,
    /// Reads elements, not partial results.
    pub(super) first: bool,
    pub(super) variant: Variant,
}

impl Level {
    pub(super) fn blocks_per_group(self) -> u64 {
        u64::from(self.variant.group * self.variant.width) / LANES as u64
    }

    /// `[blocks in total, elements or partials per row, blocks per row, elements per row at the start]`.
    pub(super) fn params(
        self,
        op: &'static str,
        [all, left, blocks, n]: [u64; 4],
        last: bool,
    ) -> Result<[u32; 8], OpError> {
        let squares = self.first && self.reduction == Reduction::Norm;
        let finish = match self.reduction {
            Reduction::Mean => 1,
            Reduction::Norm => 2,
            _ => 0,
        };
        let flip = if self.reduction.is_min() { u32::MAX } else { 0 };
        let count = (n as f32).to_bits();
        let choice = if self.reduction.adds() { u32::from(squares) } else { flip };
        // The last word is a zero unknown to the compiler; see the shader.
        Ok([word(op, all)?, word(op, left)?, word(op, blocks)?, choice, u32::from(last), finish, count, 0])
    }

    pub(super) fn kernel(self) -> Arc<Kernel> {
        let (name, text) = match (self.reduction.adds(), self.reduction.is_index()) {
            (true, _) => ("sum", include_str!("../../shader/reduce_sum.wgsl")),
            (_, false) => ("extreme", include_str!("../../shader/reduce_min_max.wgsl")),
            (_, true) => ("arg-extreme", include_str!("../../shader/reduce_min_max.wgsl")),
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
            .replace("INDEX", if self.reduction.is_index() { "true" } else { "false" });
        let reduction = self.reduction;
        let first = self.first;
        Arc::new(Kernel {
            name: name.into(),
            wgsl: wgsl.into(),
            entry: if first { "elements" } else { "pairs" },
            bindings: vec![Access::Read, Access::Write],
            cpu_reference: Arc::new(move |call| cpu_reference(reduction, first, call)),
        })
    }
}

fn cpu_reference(
    reduction: Reduction,
    first: bool,
    call: &mut KernelCall<'_>,
) -> Result<(), CpuReferenceError> {
    let refuse = || CpuReferenceError {
        kernel: reduction.name().into(),
        why: "needs 7 parameters, 1 input, 1 output".into(),
    };
    let ([all, left, blocks, _, last, _, count, ..], [input], [out]) =
        (call.params, call.inputs.as_slice(), call.outputs.as_mut_slice())
    else {
        return Err(refuse());
    };
    let (left, blocks) = (*left as usize, (*blocks).max(1) as usize);
    let (elements, pairs): (Vec<f32>, Vec<Partial>) = if first {
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
            let [known, at] = reduction.resolve_index(reduction.reduce_block(x, 0), x);
            [known, if reduction.is_index() { at + start as u32 } else { at }]
        } else {
            reduction.merge(pairs.get(range).unwrap_or_default())
        };
        if *last == 1 { vec![reduction.finish(pair, n)] } else { pair.to_vec() }
    });
    put_words(out, done);
    Ok(())
}
