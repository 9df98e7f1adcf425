//! How do many steps become one loop? Runs of simple steps are compiled, when a plan is first run, to machine code that
//! keeps what only they need in registers.
//!
//! ```text
//!   steps ──► units: a step by itself, or a group of simple ones          units.rs
//!   group ──► instructions over values, streams, numbers and states       ir.rs
//!         ──► registers and bytes                                         emit.rs, asm.rs
//!         ──► pages that can be executed                                  code.rs
//! ```
//! The kernels stay: they compute what is not simple, the first bars of everything, and all of it where code cannot be made
//! (another processor, a system that forbids it). Both do the same operations in the same order, so that results are the
//! same to the last bit; the tests compare them for the whole catalogue.

mod asm;
mod code;
mod emit;
mod ir;
mod units;

use std::collections::{HashMap, HashSet};

use code::Code;
pub(crate) use emit::STREAMS_AT;
use emit::{NUMBER, SLOT, Width};
use ir::{Builder, Ir};
pub(crate) use units::{MOST_STEPS, Unit};

use crate::plan::{Place, Plan};

/// A plan's units and the code of its groups.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) units: Vec<Unit>,
    groups: Vec<Group>,
    code: Code,
}

/// Steps that are one loop.
#[derive(Debug)]
pub(crate) struct Group {
    /// The first bar from which on the loop holds.
    pub(crate) steady: usize,
    /// Which buffer each stream is, how far back it is read, and whether it is written.
    pub(crate) streams: Vec<(usize, usize, bool)>,
    /// The steps whose kernels have its states.
    pub(crate) states: Vec<usize>,
    /// Every number four times.
    numbers: Vec<[f64; 4]>,
    /// Where the function for a whole row is, and for one number.
    wide: Option<usize>,
    narrow: Option<usize>,
}

/// Room for the pointers and states of a group; one per thread.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) table: Vec<*mut f64>,
    pub(crate) states: Vec<[f64; SLOT / 8]>,
}

#[allow(unsafe_code, reason = "the pointers are only set and used within one call")]
// SAFETY: a desk's pointers are written anew before every use, by the thread that uses them.
unsafe impl Send for Desk {}

impl Native {
    /// `None` where there is nothing to gain, or no code can be made.
    pub(crate) fn new(plan: &Plan, lanes: usize) -> Option<Native> {
        if !supported() {
            return None;
        }
        let units = units::of(&plan.steps, lanes);
        let numbers: HashMap<usize, f64> = plan.constants.iter().map(|(x, p)| (p.buffer, *x)).collect();
        let wanted: HashSet<usize> = plan.outputs.iter().map(|p| p.buffer).collect();
        let mut truths = HashSet::new();
        let (mut groups, mut bytes) = (Vec::new(), Vec::new());
        for unit in &units {
            if let Unit::Group { steps, .. } = unit {
                let exported = exports(plan, steps.clone(), &wanted);
                let is_exported = |at: usize, place: Place| {
                    place.history > 0 || exported.contains(&at) || wanted.contains(&place.buffer)
                };
                let mut builder = Builder::new(&is_exported, &truths, &numbers);
                for (at, step) in plan.steps.iter().enumerate().skip(steps.start).take(steps.len()) {
                    builder.step(at, step);
                }
                groups.push(Group::new(plan, steps.clone(), &builder.finish(), lanes, &mut bytes));
            }
            let (Unit::Group { steps, .. } | Unit::Steps(steps)) = unit;
            for step in plan.steps.iter().skip(steps.start).take(steps.len()) {
                for place in &step.outputs {
                    if ir::is_truth(&step.prim) {
                        truths.insert(place.buffer);
                    } else {
                        truths.remove(&place.buffer);
                    }
                }
            }
        }
        if groups.is_empty() {
            return None;
        }
        Code::new(&bytes).map(|code| Native { units, groups, code })
    }

    pub(crate) fn group(&self, at: usize) -> Option<&Group> {
        self.groups.get(at)
    }

    /// Runs a group over some bars.
    ///
    /// # Safety
    /// The desk has a valid pointer for every stream, from as far back as the group reads it to `bars` bars on, and nobody
    /// else uses those that are written.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run(&self, group: &Group, desk: &mut Desk, bars: usize, lanes: usize) {
        if let Some(slot) = desk.table.get_mut(emit::NUMBERS_AT) {
            *slot = group.numbers.as_ptr().cast_mut().cast();
        }
        if let Some(slot) = desk.table.get_mut(emit::STATES_AT) {
            *slot = desk.states.as_mut_ptr().cast();
        }
        let wide = if lanes == 1 { bars / 8 * 8 } else { bars };
        let done = match group.wide {
            Some(entry) if wide > 0 => {
                // SAFETY: promised by the caller; the function was made from this group.
                unsafe { self.code.call(entry, &desk.table, wide * lanes * 8) };
                wide
            }
            _ => 0,
        };
        if let Some(entry) = group.narrow.filter(|_| done < bars) {
            for pointer in desk.table.iter_mut().skip(STREAMS_AT) {
                *pointer = pointer.wrapping_add(done);
            }
            // SAFETY: as above, for the bars that are left.
            unsafe { self.code.call(entry, &desk.table, (bars - done) * 8) };
        }
    }
}

impl Group {
    fn new(plan: &Plan, steps: std::ops::Range<usize>, ir: &Ir, lanes: usize, bytes: &mut Vec<u8>) -> Group {
        let mut function = |width: Width| {
            // A cache line of its own.
            bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
            let at = bytes.len();
            bytes.extend(emit::emit(ir, width, 8 * lanes));
            at
        };
        let along_time = lanes == 1 && ir.states.is_empty() && !ir.looks_back;
        let wide = (lanes > 1 || along_time).then(|| function(Width::Eight));
        let narrow = (lanes == 1).then(|| function(Width::One));
        let steady = plan.steps.iter().skip(steps.start).take(steps.len()).map(ir::steady).max();
        let written = ir.streams.iter().zip(&ir.written);
        Group {
            steady: steady.unwrap_or(0),
            streams: written.map(|((buffer, back), written)| (*buffer, *back, *written)).collect(),
            states: ir.states.clone(),
            numbers: ir.consts.iter().map(|c| [f64::from_bits(*c); NUMBER / 8]).collect(),
            wide,
            narrow,
        }
    }
}

/// Steps of a group whose results others read: later steps, before the buffer is written again.
fn exports(plan: &Plan, steps: std::ops::Range<usize>, wanted: &HashSet<usize>) -> HashSet<usize> {
    let mut found = HashSet::new();
    for at in steps.clone() {
        let Some(place) = plan.steps.get(at).and_then(|s| s.outputs.first()) else { continue };
        if wanted.contains(&place.buffer) {
            found.insert(at);
            continue;
        }
        for (later, step) in plan.steps.iter().enumerate().skip(at + 1) {
            let reads = step.inputs.iter().any(|p| p.buffer == place.buffer);
            if reads && !steps.contains(&later) {
                found.insert(at);
                break;
            }
            if step.outputs.iter().any(|p| p.buffer == place.buffer) {
                break;
            }
        }
    }
    found
}

/// Can code be made for this machine?
fn supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
