//! CPU evaluation of expressions: a vectorised block interpreter. Every instruction runs over a block that stays in L1.
//!
//! An instruction reads inputs in place and intermediate rows; the last one writes the result in place. An expression of one
//! instruction (or of `a*b + c`) is thus one pass over memory. Constants are rows that are filled once.

use std::mem;

use rayon::prelude::*;

use super::{
    Expr, Function, Node,
    simd::{self, LINE, OpCode},
};
use crate::Threads;

pub(crate) use super::simd::apply;

/// Elements of a block: rows of 4 KiB.
pub(crate) const BLOCK: usize = 1024;
/// Rows up to which full blocks fit L1; with more of them blocks are a quarter as long.
const FEW_ROWS: usize = 6;
/// Fewest elements per thread.
const PER_THREAD: usize = 1 << 16;

/// Operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    Input(usize),
    Row(usize),
}

#[derive(Debug, Clone)]
struct Instr {
    code: OpCode,
    from: [Operand; 3],
    /// Destination row; `None` is the result.
    to: Option<usize>,
}

/// A compiled expression: instructions over allocated rows.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    steps: Vec<Instr>,
    rows: usize,
    constants: Vec<(usize, f32)>,
}

/// Scratch rows of a program; one set per thread.
pub(crate) struct Scratch(Vec<Vec<f32>>);

/// An input of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// One value per element.
    Each(&'a [f32]),
    /// Broadcast value.
    One(f32),
}

impl Program {
    pub(crate) fn new(expr: &Expr) -> Program {
        let nodes = expr.nodes();
        let fused = fused_products(nodes);
        let calls = calls(nodes, &fused);
        // Liveness: last use of each node, as positions in `calls`.
        let mut last_use = vec![0usize; nodes.len()];
        for (when, (_, _, of)) in calls.iter().enumerate() {
            for at in of {
                if let Some(last) = last_use.get_mut(*at) {
                    *last = when;
                }
            }
        }
        let mut rows = RowAllocator::default();
        let mut operands: Vec<Operand> = vec![Operand::Row(0); nodes.len()];
        let mut constants = Vec::new();
        for (node, operand) in nodes.iter().zip(&mut operands) {
            match *node {
                Node::Input(input) => *operand = Operand::Input(usize::from(input)),
                // The row of a constant is never freed: it is filled once.
                Node::Constant(bits) => {
                    let row = rows.alloc();
                    constants.push((row, f32::from_bits(bits)));
                    *operand = Operand::Row(row);
                }
                Node::Call(..) => {}
            }
        }
        let mut steps = Vec::new();
        for (when, (at, code, of)) in calls.iter().enumerate() {
            let operand =
                |i: usize| of.get(i).and_then(|at| operands.get(*at)).copied().unwrap_or(Operand::Row(0));
            let from = [operand(0), operand(1), operand(2)];
            // Allocated before the operands' rows are freed: an instruction never writes what it reads.
            let to = (when + 1 < calls.len()).then(|| rows.alloc());
            for at in of {
                let done = last_use.get(*at) == Some(&when);
                let is_call = matches!(nodes.get(*at), Some(Node::Call(..)));
                if let (true, true, Some(Operand::Row(row))) = (done, is_call, operands.get(*at)) {
                    rows.free(*row);
                }
            }
            if let (Some(to), Some(operand)) = (to, operands.get_mut(*at)) {
                *operand = Operand::Row(to);
            }
            steps.push(Instr { code: *code, from, to });
        }
        if steps.is_empty() {
            let from = operands.last().copied().unwrap_or(Operand::Row(0));
            steps.push(Instr { code: OpCode::Copy, from: [from; 3], to: None });
        }
        Program { steps, rows: rows.count, constants }
    }

    /// Block length in elements.
    pub(crate) fn block(&self) -> usize {
        if self.rows > FEW_ROWS { BLOCK / 4 } else { BLOCK }
    }

    /// Scratch for blocks of at most `block` elements.
    pub(crate) fn scratch(&self, block: usize) -> Scratch {
        let mut rows = vec![vec![0.0; block]; self.rows];
        for (row, value) in &self.constants {
            if let Some(row) = rows.get_mut(*row) {
                row.fill(*value);
            }
        }
        Scratch(rows)
    }

    /// Evaluates one block; `stream` uses non-temporal stores for the result. `out` is at most as long as the scratch rows, inputs
    /// are at least as long as `out`.
    pub(crate) fn run(&self, inputs: &[&[f32]], out: &mut [f32], scratch: &mut Scratch, stream: bool) {
        let n = out.len();
        for step in &self.steps {
            let mut row = step.to.and_then(|r| scratch.0.get_mut(r)).map(mem::take);
            let get = |from: Operand| match from {
                Operand::Input(at) => inputs.get(at).and_then(|i| i.get(..n)).unwrap_or_default(),
                Operand::Row(at) => scratch.0.get(at).and_then(|r| r.get(..n)).unwrap_or_default(),
            };
            let from = step.from.map(get);
            match &mut row {
                Some(row) => simd::step(step.code, from, row.get_mut(..n).unwrap_or_default(), false),
                None => simd::step(step.code, from, out, stream),
            }
            if let (Some(row), Some(at)) = (row, step.to)
                && let Some(slot) = scratch.0.get_mut(at)
            {
                *slot = row;
            }
        }
    }

    /// Evaluates all elements, in parallel. Elements are independent, so threads do not change any bit.
    pub(crate) fn all(&self, inputs: &[Input<'_>], out: &mut [f32], threads: Threads) {
        let stream = size_of_val(out) > streaming_threshold();
        let part = |start: usize, out: &mut [f32]| {
            self.part(inputs, start, out, stream);
            if stream {
                simd::fence();
            }
        };
        if threads.0 < 2 || out.len() < 2 * PER_THREAD {
            return part(0, out);
        }
        let share = out.len().div_ceil(threads.0).next_multiple_of(BLOCK);
        out.par_chunks_mut(share).enumerate().for_each(|(i, out)| part(i * share, out));
    }

    fn part(&self, inputs: &[Input<'_>], start: usize, out: &mut [f32], stream: bool) {
        let block = self.block();
        let mut scratch = self.scratch(block);
        let filled: Vec<Vec<f32>> = inputs
            .iter()
            .map(|i| if let Input::One(value) = i { vec![*value; block] } else { Vec::new() })
            .collect();
        // Blocks begin on cache lines of the result, as non-temporal stores need; a short block comes first.
        let head = match (out.as_ptr() as usize) % (4 * LINE) {
            over if stream && over != 0 && over % 4 == 0 => (LINE - over / 4).min(out.len()),
            _ => 0,
        };
        let (first, rest) = out.split_at_mut(head);
        let mut at = start;
        for out in Some(first).into_iter().filter(|f| !f.is_empty()).chain(rest.chunks_mut(block)) {
            let mut now: [&[f32]; 16] = [&[]; 16];
            for ((now, input), filled) in now.iter_mut().zip(inputs).zip(&filled) {
                *now = match input {
                    Input::Each(values) => values.get(at..at + out.len()).unwrap_or_default(),
                    Input::One(_) => filled,
                };
            }
            self.run(&now, out, &mut scratch, stream);
            at += out.len();
        }
    }
}

/// Multiplications whose only use is an addition: fused to `a*b + c`.
fn fused_products(nodes: &[Node]) -> Vec<bool> {
    let mut reads = vec![0u32; nodes.len()];
    for node in nodes {
        if let Node::Call(f, of) = node {
            for at in of.iter().take(f.arity()) {
                if let Some(reads) = reads.get_mut(usize::from(*at)) {
                    *reads += 1;
                }
            }
        }
    }
    let mut fused = vec![false; nodes.len()];
    for node in nodes {
        if let Node::Call(Function::Add, [a, b, _]) = node {
            let product = [a, b].into_iter().find(|at| {
                let at = usize::from(**at);
                matches!(nodes.get(at), Some(Node::Call(Function::Mul, _))) && reads.get(at) == Some(&1)
            });
            if let Some(fused) = product.and_then(|at| fused.get_mut(usize::from(*at))) {
                *fused = true;
            }
        }
    }
    fused
}

type Calls = Vec<(usize, OpCode, Vec<usize>)>;

/// Instruction list: node, opcode, operands.
fn calls(nodes: &[Node], fused: &[bool]) -> Calls {
    let is_fused = |at: u16| fused.get(usize::from(at)).copied().unwrap_or(false);
    let factors = |at: u16| match nodes.get(usize::from(at)) {
        Some(Node::Call(_, [a, b, _])) => [usize::from(*a), usize::from(*b)],
        _ => [0, 0],
    };
    let mut calls = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Node::Call(f, of) = node else { continue };
        let [a, b, _] = *of;
        match f {
            Function::Mul if is_fused(at as u16) => {}
            Function::Add if is_fused(a) || is_fused(b) => {
                let (product, other) = if is_fused(a) { (a, b) } else { (b, a) };
                let [x, y] = factors(product);
                calls.push((at, OpCode::MulAdd, vec![x, y, usize::from(other)]));
            }
            f => calls.push((
                at,
                OpCode::Call(*f),
                of.iter().take(f.arity()).map(|at| usize::from(*at)).collect(),
            )),
        }
    }
    calls
}

/// Row (register) allocation with a free list.
#[derive(Default)]
struct RowAllocator {
    free: Vec<usize>,
    count: usize,
}

impl RowAllocator {
    fn alloc(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    fn free(&mut self, row: usize) {
        if !self.free.contains(&row) {
            self.free.push(row);
        }
    }
}

/// Result size from which non-temporal stores are used: the first lines would be evicted before anybody reads them.
pub(crate) fn streaming_threshold() -> usize {
    static SIZE: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| last_level_cache().unwrap_or(16 << 20));
    *SIZE / 2
}

/// Size of the last-level cache in bytes, by CPUID.
#[cfg(target_arch = "x86_64")]
fn last_level_cache() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel: CPUID leaf 4, AMD: leaf 0x8000_001d, same format (vendor manuals, volumes 2A and 3).
    let (basic, extended) = (__cpuid(0).eax, __cpuid(0x8000_0000).eax);
    let leaves = [(4, basic), (0x8000_001d, extended)];
    let described = leaves.into_iter().filter(|(leaf, most)| leaf <= most).flat_map(|(leaf, _)| {
        (0..8).map(move |i| __cpuid_count(leaf, i)).take_while(|c| c.eax & 0x1f != 0).map(|c| {
            let part = |shift: u32, bits: u32| ((c.ebx >> shift) & ((1 << bits) - 1)) as usize + 1;
            part(22, 10) * part(12, 10) * part(0, 12) * (c.ecx as usize + 1)
        })
    });
    described.max().filter(|size| *size > 0)
}

#[cfg(not(target_arch = "x86_64"))]
fn last_level_cache() -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scalar reference: one element, node by node.
    fn reference(expr: &Expr, inputs: &[f32]) -> f32 {
        let mut values: Vec<f32> = Vec::new();
        for node in expr.nodes() {
            values.push(match *node {
                Node::Input(at) => inputs[usize::from(at)],
                Node::Constant(bits) => f32::from_bits(bits),
                Node::Call(f, [a, b, c]) => {
                    let get = |at: u16| values.get(usize::from(at)).copied().unwrap_or(0.0);
                    apply(f, get(a), get(b), get(c))
                }
            });
        }
        values[values.len() - 1]
    }

    #[test]
    fn programs_match_the_scalar_reference() {
        let texts = [
            "a",
            "3",
            "a*b + c",
            "c + a*b",
            "a*b + a*b",
            "a*b + c*d",
            "(a*b + c)*(a*b + c) - a*b",
            "a*a*a*a*a + 1",
            "select(a < b, sin(a)*c, exp(b) + d)",
            "min(max(a, b), c) / (abs(d) + 1)",
            "sqrt(abs(a))*floor(b) - tanh(c)",
            "pow(abs(a), b) + ln(abs(c) + 1) - cos(d)",
            "(a > b) + (a >= b) + (a <= b) + (a == b) - -a",
            "((a+b)*(c+d) + (a-b)*(c-d)) * ((a+c)*(b+d) + (a-c)*(b-d)) + a*2 + b*3 + c*4 + d*5",
        ];
        let n = 3000;
        let inputs: Vec<Vec<f32>> = (0..4)
            .map(|k| (0..n).map(|i| ((i * (k + 3) * 37 % 1009) as f32 - 500.0) * 0.01).collect())
            .collect();
        for text in texts {
            let expr = Expr::parse(text, &["a", "b", "c", "d"]).unwrap();
            let program = Program::new(&expr);
            for stream in [false, true] {
                let mut out = vec![f32::NAN; n];
                let each: Vec<Input<'_>> = inputs.iter().map(|i| Input::Each(i)).collect();
                program.part(&each, 0, &mut out[1..], stream);
                simd::fence();
                for (i, got) in out[1..].iter().enumerate() {
                    let want = reference(&expr, &[inputs[0][i], inputs[1][i], inputs[2][i], inputs[3][i]]);
                    assert_eq!(got.to_bits(), want.to_bits(), "{text} at {i}: {got} {want} {program:?}");
                }
            }
        }
    }

    #[test]
    fn simple_expressions_are_one_instruction() {
        let steps = |text: &str| Program::new(&Expr::parse(text, &["a", "b", "c"]).unwrap()).steps.len();
        assert_eq!([steps("a"), steps("a*b + c"), steps("2*a + 1"), steps("-a"), steps("1")], [1; 5]);
        assert_eq!((steps("a*b + c*c"), steps("a*b + a*b")), (2, 2));
    }

    #[test]
    fn streaming_threshold_is_plausible() {
        assert!((1 << 17..=1 << 34).contains(&streaming_threshold()), "{}", streaming_threshold());
    }
}
