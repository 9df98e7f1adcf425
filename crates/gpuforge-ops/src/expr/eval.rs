//! How is an expression computed on the processor? Step by step over blocks that stay in the first cache.
//!
//! A step reads inputs where they lie and rows of intermediate values; the last step writes the result where it belongs. An
//! expression of one step (or of `a*b + c`) is thus one pass over memory. Constants are rows that are filled once.

use std::mem;

use rayon::prelude::*;

use super::{
    Expr, Function, Node,
    simd::{self, Code, LINE},
};
use crate::Threads;

pub(crate) use super::simd::apply;

/// Elements of a block: rows of 4 KiB.
pub(crate) const BLOCK: usize = 1024;
/// Rows up to which whole blocks fit the first cache; with more of them blocks are a quarter as long.
const FEW_ROWS: usize = 6;
/// Elements that are worth a thread.
const PER_THREAD: usize = 1 << 16;

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Input(usize),
    Row(usize),
}

#[derive(Debug, Clone)]
struct Step {
    code: Code,
    from: [From; 3],
    /// A row; `None` is the result.
    to: Option<usize>,
}

/// An expression made ready.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    steps: Vec<Step>,
    rows: usize,
    constants: Vec<(usize, f32)>,
}

/// Rows of a program; one per thread.
pub(crate) struct Scratch(Vec<Vec<f32>>);

/// An input of a whole evaluation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// A value per element.
    Each(&'a [f32]),
    /// One value for all.
    One(f32),
}

impl Program {
    pub(crate) fn new(expr: &Expr) -> Program {
        let nodes = expr.nodes();
        let fused = fused(nodes);
        let calls = calls(nodes, &fused);
        // When is a node's value read for the last time? Positions in `calls`.
        let mut until = vec![0usize; nodes.len()];
        for (when, (_, _, of)) in calls.iter().enumerate() {
            for at in of {
                if let Some(until) = until.get_mut(*at) {
                    *until = when;
                }
            }
        }
        let mut rows = Rows::default();
        let mut places: Vec<From> = vec![From::Row(0); nodes.len()];
        let mut constants = Vec::new();
        for (node, place) in nodes.iter().zip(&mut places) {
            match *node {
                Node::Input(input) => *place = From::Input(usize::from(input)),
                // The row of a constant is never given back: it is filled once.
                Node::Constant(bits) => {
                    let row = rows.take();
                    constants.push((row, f32::from_bits(bits)));
                    *place = From::Row(row);
                }
                Node::Call(..) => {}
            }
        }
        let mut steps = Vec::new();
        for (when, (at, code, of)) in calls.iter().enumerate() {
            let place = |i: usize| of.get(i).and_then(|at| places.get(*at)).copied().unwrap_or(From::Row(0));
            let from = [place(0), place(1), place(2)];
            // Taken before the operands' rows are given back: a step never writes what it reads.
            let to = (when + 1 < calls.len()).then(|| rows.take());
            for at in of {
                let done = until.get(*at) == Some(&when);
                let is_call = matches!(nodes.get(*at), Some(Node::Call(..)));
                if let (true, true, Some(From::Row(row))) = (done, is_call, places.get(*at)) {
                    rows.give(*row);
                }
            }
            if let (Some(to), Some(place)) = (to, places.get_mut(*at)) {
                *place = From::Row(to);
            }
            steps.push(Step { code: *code, from, to });
        }
        if steps.is_empty() {
            let from = places.last().copied().unwrap_or(From::Row(0));
            steps.push(Step { code: Code::Copy, from: [from; 3], to: None });
        }
        Program { steps, rows: rows.made, constants }
    }

    /// Elements of its blocks.
    pub(crate) fn block(&self) -> usize {
        if self.rows > FEW_ROWS { BLOCK / 4 } else { BLOCK }
    }

    /// Rows for blocks of at most `block` elements.
    pub(crate) fn scratch(&self, block: usize) -> Scratch {
        let mut rows = vec![vec![0.0; block]; self.rows];
        for (row, value) in &self.constants {
            if let Some(row) = rows.get_mut(*row) {
                row.fill(*value);
            }
        }
        Scratch(rows)
    }

    /// Evaluates one block: `out` is at most as long as the scratch's rows, and inputs are at least as long as it.
    pub(crate) fn run(&self, inputs: &[&[f32]], out: &mut [f32], scratch: &mut Scratch, stream: bool) {
        let n = out.len();
        for step in &self.steps {
            let mut row = step.to.and_then(|r| scratch.0.get_mut(r)).map(mem::take);
            let get = |from: From| match from {
                From::Input(at) => inputs.get(at).and_then(|i| i.get(..n)).unwrap_or_default(),
                From::Row(at) => scratch.0.get(at).and_then(|r| r.get(..n)).unwrap_or_default(),
            };
            let from = step.from.map(get);
            match &mut row {
                Some(row) => simd::step(step.code, from, row.get_mut(..n).unwrap_or_default(), false),
                None => simd::step(step.code, from, out, stream),
            }
            if let (Some(row), Some(at)) = (row, step.to)
                && let Some(place) = scratch.0.get_mut(at)
            {
                *place = row;
            }
        }
    }

    /// Evaluates all elements. Each depends on its own inputs only, so that threads do not change any bit.
    pub(crate) fn all(&self, inputs: &[Input<'_>], out: &mut [f32], threads: Threads) {
        let stream = size_of_val(out) > beyond_caches();
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
        // Blocks begin on lines of the result, so that it can be streamed; before them is a short one.
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

/// Products that are only read by the sum that takes them as `a*b + c`.
fn fused(nodes: &[Node]) -> Vec<bool> {
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

type Calls = Vec<(usize, Code, Vec<usize>)>;

/// What is done, in order: node, code, operands.
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
                calls.push((at, Code::MulAdd, vec![x, y, usize::from(other)]));
            }
            f => calls.push((
                at,
                Code::Call(*f),
                of.iter().take(f.arity()).map(|at| usize::from(*at)).collect(),
            )),
        }
    }
    calls
}

/// Rows that are in use and that can be used again.
#[derive(Default)]
struct Rows {
    free: Vec<usize>,
    made: usize,
}

impl Rows {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            self.made - 1
        })
    }

    fn give(&mut self, row: usize) {
        if !self.free.contains(&row) {
            self.free.push(row);
        }
    }
}

/// Results from this size on are written past the caches: what was written first would be gone before anybody reads it.
pub(crate) fn beyond_caches() -> usize {
    static SIZE: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| last_level_cache().unwrap_or(16 << 20));
    *SIZE / 2
}

/// The largest cache that this processor describes, in bytes.
#[cfg(target_arch = "x86_64")]
fn last_level_cache() -> Option<usize> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel describes caches in leaf 4, AMD in leaf 0x8000_001d, both in the same form (their manuals, volumes 2A and 3).
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

    /// One element, one node after the other.
    fn plainly(expr: &Expr, inputs: &[f32]) -> f32 {
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
    fn programs_give_what_nodes_say() {
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
                    let want = plainly(&expr, &[inputs[0][i], inputs[1][i], inputs[2][i], inputs[3][i]]);
                    assert_eq!(got.to_bits(), want.to_bits(), "{text} at {i}: {got} {want} {program:?}");
                }
            }
        }
    }

    #[test]
    fn simple_expressions_are_one_pass() {
        let steps = |text: &str| Program::new(&Expr::parse(text, &["a", "b", "c"]).unwrap()).steps.len();
        assert_eq!([steps("a"), steps("a*b + c"), steps("2*a + 1"), steps("-a"), steps("1")], [1; 5]);
        assert_eq!((steps("a*b + c*c"), steps("a*b + a*b")), (2, 2));
    }

    #[test]
    fn the_cache_has_a_plausible_size() {
        assert!((1 << 17..=1 << 34).contains(&beyond_caches()), "{}", beyond_caches());
    }
}
