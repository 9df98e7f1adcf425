//! Recurrences as prefix scans: eight bars at once by a Sklansky network, for relaxed floating point.
//!
//! Of `y += k (x - y)` a bar contributes `k x`, and each later bar keeps `a = 1 - k` of what was there. Eight bars are three
//! rounds: the second of every two adds `a` times the first; the last two of every four add the second, times `a` and `a²`;
//! the last four add the fourth, times `a` to `a⁴`. The carry-in is added once, and only that is a loop-carried dependency.
//! EMAs are computed of the distance to the first of the eight bars, so that a flat series stays flat to the last digit.
//! Sums are the same with `a = 1`. Where every bar has its own `a` (linear recurrence, adaptive EMA), the products of the
//! `a` go through the same network.
//!
//! Not bit-identical to the sequential recurrence: sums are reassociated, and a NaN or infinity spreads differently, so the
//! caller checks that the states stay finite (see [`crate::exec::ExecOptions::relaxed_fp`]).

use super::{Arith, Bitwise, Builder, Inst, Ir, Opcode, Src};
use crate::{graph::NodeOp, jit::verify::IrError, plan::Step};

/// A recurrence over eight bars. Fields but for `state` and `kind` are indices into the constant table.
#[derive(Debug, Clone, Copy)]
pub(in crate::jit) struct Scan {
    pub(in crate::jit) state: usize,
    /// Factors of the first and second round: `0 a 0 a` and `0 0 a a²`. With per-bar factors: masks of the elements that are
    /// added to.
    pub(in crate::jit) round1: usize,
    pub(in crate::jit) round2: usize,
    pub(in crate::jit) kind: ScanKind,
}

/// What a scan computes.
#[derive(Debug, Clone, Copy)]
pub(in crate::jit) enum ScanKind {
    /// Cumulative sum: `y += x`.
    Sum,
    /// EMA: `y += k * (x - y)`.
    Ema(EmaPowers),
    /// First-order linear recurrence: `y = a * y + b`; `a` is the first operand.
    LinearRecurrence { ones: usize },
    /// `y += k * (x - y)` with a `k` per bar.
    AdaptiveEma { ones: usize },
}

impl Scan {
    /// Every constant that it reads.
    pub(in crate::jit) fn constants(&self) -> impl Iterator<Item = usize> + use<> {
        let of_kind = match self.kind {
            ScanKind::Sum => Vec::new(),
            ScanKind::Ema(EmaPowers { k, powers_1_to_4, powers_5_to_8, power_8 }) => {
                vec![k, powers_1_to_4, powers_5_to_8, power_8]
            }
            ScanKind::LinearRecurrence { ones } | ScanKind::AdaptiveEma { ones } => vec![ones],
        };
        [self.round1, self.round2].into_iter().chain(of_kind)
    }
}

impl ScanKind {
    /// Operands of the scan.
    pub(super) fn operands(self) -> usize {
        match self {
            ScanKind::Sum | ScanKind::Ema(_) => 1,
            ScanKind::LinearRecurrence { .. } | ScanKind::AdaptiveEma { .. } => 2,
        }
    }
}

/// Constants of an EMA.
#[derive(Debug, Clone, Copy)]
pub(in crate::jit) struct EmaPowers {
    pub(in crate::jit) k: usize,
    /// `a` to the power of 1 to 4, of 5 to 8, and of 8.
    pub(in crate::jit) powers_1_to_4: usize,
    pub(in crate::jit) powers_5_to_8: usize,
    pub(in crate::jit) power_8: usize,
}

/// Can this recurrence be a prefix scan?
pub(in crate::jit) fn is_scannable(op: &NodeOp) -> bool {
    match op {
        NodeOp::Ema { k, .. } => (0.0..=1.0).contains(&k.get()),
        NodeOp::RollingSum(..)
        | NodeOp::PartialRollingSum(..)
        | NodeOp::RollingSumFrom { .. }
        | NodeOp::CumSum(_) => true,
        NodeOp::Wilder { .. } | NodeOp::LinearRecurrence { .. } | NodeOp::AdaptiveEma { .. } => true,
        _ => false,
    }
}

/// The same loop for an iteration that has not all of its bars: another stream, the last one, is a mask of those that there
/// are, and every scan reads 0 for the others. What is computed of those that there are has the same bits; the others must not
/// reach it, not even a NaN times 0, and the states after it must be finite if those of the bars are.
pub(in crate::jit) fn mask_scans(ir: &Ir) -> Ir {
    let mut masked = Ir {
        insts: Vec::with_capacity(ir.insts.len() + ir.scans.len()),
        vals: ir.vals,
        consts: ir.consts.clone(),
        streams: ir.streams.clone(),
        states: ir.states.clone(),
        scans: ir.scans.clone(),
        written: ir.written.clone(),
        looks_back: ir.looks_back,
    };
    let mask = Src::Mem { stream: ir.streams.len(), lag: 0 };
    masked.streams.push((MASK_BUFFER, 0));
    masked.written.push(false);
    for inst in &ir.insts {
        let mut inst = *inst;
        if let Inst::Op { op: op @ Opcode::Scan(_), from, .. } = &mut inst {
            for src in from.iter_mut().take(ir.operands(*op).unwrap_or(0)) {
                let to = masked.vals;
                masked.vals += 1;
                let and = Opcode::Bitwise(Bitwise::And);
                masked.insts.push(Inst::Op { to, op: and, from: [*src, mask, Src::None] });
                *src = Src::Val(to);
            }
        }
        masked.insts.push(inst);
    }
    masked
}

/// The mask is no buffer of the plan.
const MASK_BUFFER: usize = usize::MAX;

impl Builder<'_> {
    /// The value of a recurrence with this state, as a scan.
    pub(super) fn scan_recurrence(&mut self, step: &Step, op: &NodeOp, state: usize) -> Result<Src, IrError> {
        let (add, sub) = (Opcode::Arith(Arith::Add), Opcode::Arith(Arith::Sub));
        let new = self.input(step, 0, 0)?;
        Ok(match op {
            NodeOp::Ema { k, .. } => self.scan_ema(new, k.get(), state),
            NodeOp::Wilder { n, .. } => self.scan_ema(new, 1.0 / *n as f64, state),
            NodeOp::PartialRollingSum(_, n) => {
                // The state is the sum without the value that leaves next.
                let old = self.input(step, 0, n - 1)?;
                let change = self.op(sub, &[new, old]);
                let rest = self.scan_sum(change, state);
                self.op(add, &[rest, old])
            }
            // The relaxed kernel of both keeps the sum as it is.
            NodeOp::RollingSum(_, n) | NodeOp::RollingSumFrom { n, .. } => {
                let old = self.input(step, 0, *n)?;
                let change = self.op(sub, &[new, old]);
                self.scan_sum(change, state)
            }
            NodeOp::LinearRecurrence { .. } | NodeOp::AdaptiveEma { .. } => {
                let second = self.input(step, 1, 0)?;
                let (ones, all) = (self.constants_of([1.0; 4]), u64::MAX);
                let adaptive = matches!(op, NodeOp::AdaptiveEma { .. });
                let kind = if adaptive {
                    ScanKind::AdaptiveEma { ones }
                } else {
                    ScanKind::LinearRecurrence { ones }
                };
                let (round1, round2) =
                    (self.constant_vector([0, all, 0, all]), self.constant_vector([0, 0, all, all]));
                // Without -0: 0 times what follows is added to it, whose sign would show.
                let zero = self.constant(0.0);
                let second = if adaptive { second } else { self.op(add, &[second, zero]) };
                self.scan(&[new, second], Scan { state, round1, round2, kind })
            }
            NodeOp::CumSum(_) => self.scan_sum(new, state),
            _ => return Err(IrError::Unsupported { what: "this recurrence as a scan" }),
        })
    }

    fn scan_sum(&mut self, x: Src, state: usize) -> Src {
        // Of the AArch64 code, which keeps them in a register.
        self.constants_of([1.0; 4]);
        self.scan_with_factor(x, state, 1.0, ScanKind::Sum)
    }

    fn scan_ema(&mut self, x: Src, k: f64, state: usize) -> Src {
        let a = 1.0 - k;
        let [a2, a4] = [a * a, a * a * (a * a)];
        let powers = EmaPowers {
            k: self.constants_of([k; 4]),
            powers_1_to_4: self.constants_of([a, a2, a2 * a, a4]),
            powers_5_to_8: self.constants_of([a4 * a, a4 * a2, a4 * a2 * a, a4 * a4]),
            power_8: self.constants_of([a4 * a4; 4]),
        };
        self.scan_with_factor(x, state, a, ScanKind::Ema(powers))
    }

    /// A scan whose factor `a` is the same for every bar.
    fn scan_with_factor(&mut self, x: Src, state: usize, a: f64, kind: ScanKind) -> Src {
        let round1 = self.constants_of([0.0, a, 0.0, a]);
        let round2 = self.constants_of([0.0, 0.0, a, a * a]);
        self.scan(&[x], Scan { state, round1, round2, kind })
    }

    fn scan(&mut self, from: &[Src], scan: Scan) -> Src {
        self.ir.scans.push(scan);
        self.op(Opcode::Scan(self.ir.scans.len() - 1), from)
    }

    fn constants_of(&mut self, constants: [f64; 4]) -> usize {
        self.constant_vector(constants.map(f64::to_bits))
    }
}
