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
pub(crate) mod guard;
mod ir;
mod units;

use std::collections::{HashMap, HashSet};

use code::Code;
use emit::{
    NUMBER, SLOT, Traffic, Width,
    straight::{self, Straight},
};
pub(crate) use emit::{STREAMS_AT, straight::BARS};
use guard::Trust;
use ir::{Builder, Fault, Ir};
use units::Chains;
pub(crate) use units::{MOST_STEPS, Unit};

use crate::{
    exec::LANES,
    graph::NodeOp,
    kernel::turn::{LINE, Write},
    plan::{Place, Plan, Step},
};

/// Steps whose loop takes as long as a line takes to come.
const STEPS_PER_LINE: usize = 4;
/// Bytes of a bar of eight series.
const ROW: usize = LANES * size_of::<f64>();

/// A plan's units and the code of its groups.
#[derive(Debug)]
pub(crate) struct Native {
    pub(crate) units: Vec<Unit>,
    groups: Vec<Group>,
    /// All of it as one loop over columns.
    straight: Option<Whole>,
    code: Code,
    /// Was it compared with the kernels?
    pub(crate) trust: Trust,
}

/// A plan of several series that is one loop from columns to columns.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Which of the plan's fields it reads.
    pub(crate) fields: Vec<usize>,
    /// Where the function is, and where the one is that writes past the caches.
    cached: usize,
    past: usize,
}

/// Steps that are one loop.
#[derive(Debug)]
pub(crate) struct Group {
    /// The first bar from which on the loop holds.
    pub(crate) steady: usize,
    /// Which buffer each stream is, how far back it is read, and whether it is written.
    pub(crate) streams: Vec<(usize, usize, bool)>,
    /// The steps whose kernels have its states, and which of theirs these are.
    pub(crate) states: Vec<(usize, usize)>,
    /// Are chains of it scans? They do not hold where a state is no number.
    pub(crate) scans: bool,
    /// Streams that it reads before it overwrites them, where somebody may have to read them again.
    overwrites: Vec<usize>,
    /// Four of every number.
    numbers: Vec<Number>,
    /// Which of the streams are results that nobody reads again: they may go past the caches.
    past: Vec<bool>,
    /// Columns of bars that it asks for while it runs.
    ahead: usize,
    /// Where the function for a whole row is, the same where much is written, and for one number.
    wide: Option<usize>,
    wide_past: Option<usize>,
    narrow: Option<usize>,
}

/// Room for the pointers and states of a group; one per thread.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) table: Vec<*mut f64>,
    /// Where the next block's bars are: eight lanes of every column that a loop asks for.
    pub(crate) ahead: Vec<*const f64>,
    pub(crate) states: Vec<Slot>,
    /// What a scan overwrites, and where it was.
    kept: Vec<f64>,
    kept_from: Vec<*mut f64>,
}

impl Desk {
    /// Puts back what [`Group::keep`] has kept of so many bars.
    ///
    /// # Safety
    /// Nobody else uses those streams.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn put_back(&mut self, bars: usize) {
        for (to, kept) in self.kept_from.iter().zip(self.kept.chunks_exact(bars.max(1))) {
            // SAFETY: promised by the caller; they were as long when they were kept.
            unsafe { std::slice::from_raw_parts_mut(*to, bars) }.copy_from_slice(kept);
        }
    }
}

/// A state, in a line of its own: a register's worth of it must not lie across two.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot(pub(crate) [f64; SLOT / 8]);

/// A number as often as a register holds it, or as many numbers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
struct Number([f64; NUMBER / 8]);

#[allow(unsafe_code, reason = "the pointers are only set and used within one call")]
// SAFETY: a desk's pointers are written anew before every use, by the thread that uses them.
unsafe impl Send for Desk {}

impl Native {
    /// `None` where there is nothing to gain, or no code can be made; also where the verifier refused it, which is
    /// recorded.
    pub(crate) fn new(plan: &Plan, lanes: usize, loose: bool) -> Option<Native> {
        if !supported() {
            return None;
        }
        Native::verified(plan, lanes, loose).unwrap_or_else(|fault| {
            guard::record(format!("a plan of {} steps was not compiled: {fault}", plan.steps.len()));
            None
        })
    }

    fn verified(plan: &Plan, lanes: usize, loose: bool) -> Result<Option<Native>, Fault> {
        let chains = match loose && lanes == 1 {
            true if fuses() => Chains::Scanned,
            true => Chains::InPieces,
            false => Chains::InOrder,
        };
        let units = units::of(&plan.steps, lanes, chains);
        let numbers: HashMap<usize, f64> = plan.constants.iter().map(|(x, p)| (p.buffer, *x)).collect();
        let wanted: HashSet<usize> = plan.outputs.iter().map(|p| p.buffer).collect();
        let mut truths = HashSet::new();
        let longest = units.iter().filter_map(Unit::group_len).max().unwrap_or(0);
        let ahead = if lanes > 1 { longest.div_ceil(STEPS_PER_LINE).min(plan.fields.len()) } else { 0 };
        let mut asks = ahead;
        let (mut groups, mut bytes, mut straight) = (Vec::new(), Vec::new(), None);
        for unit in &units {
            if let Unit::Group { steps, .. } = unit {
                let exported = exports(plan, steps.clone(), &wanted);
                let is_exported = |at: usize, place: Place| {
                    (place.history > 0 && is_looked_back_at(plan, place.buffer))
                        || exported.contains(&(at, place.buffer))
                        || wanted.contains(&place.buffer)
                };
                let mut builder = Builder::new(&is_exported, &truths, &numbers, chains);
                for (at, step) in plan.steps.iter().enumerate().skip(steps.start).take(steps.len()) {
                    builder.step(at, step);
                }
                let ir = builder.finish()?;
                let past: Vec<bool> =
                    ir.streams.iter().map(|(b, _)| is_last(plan, steps, *b, lanes)).collect();
                let ahead = if steps.len() == longest { std::mem::take(&mut asks) } else { 0 };
                groups.push(Group::new(plan, steps.clone(), (&ir, past, ahead), lanes, &mut bytes));
                if lanes == LANES && units.len() == 1 {
                    straight = Whole::new(plan, &ir, &mut bytes);
                }
            }
            let (Unit::Group { steps, .. } | Unit::Steps(steps)) = unit;
            for step in plan.steps.iter().skip(steps.start).take(steps.len()) {
                for place in &step.outputs {
                    if ir::is_truth(&step.op) {
                        truths.insert(place.buffer);
                    } else {
                        truths.remove(&place.buffer);
                    }
                }
            }
        }
        if groups.is_empty() {
            return Ok(None);
        }
        let trust = Trust::default();
        Ok(Code::new(&bytes).map(|code| Native { units, groups, straight, code, trust }))
    }

    /// Columns of bars that one of the groups asks for while it runs, of several series.
    pub(crate) fn ahead(&self) -> usize {
        self.groups.iter().map(|g| g.ahead).sum()
    }

    /// Is there nothing but one group?
    pub(crate) fn is_one_loop(&self) -> bool {
        matches!(self.units.as_slice(), [Unit::Group { .. }])
    }

    /// The bar from which on all of its groups hold.
    pub(crate) fn steady(&self) -> usize {
        self.groups.iter().map(|g| g.steady).max().unwrap_or(0)
    }

    pub(crate) fn group(&self, at: usize) -> Option<&Group> {
        self.groups.get(at)
    }

    /// All of the plan as one loop over columns of eight series, if it is that simple.
    pub(crate) fn straight(&self) -> Option<(&Whole, &Group)> {
        self.straight.as_ref().zip(self.groups.first())
    }

    /// Runs all of the plan over some bars, whole rounds of them.
    ///
    /// # Safety
    /// The desk has what `run` needs, for [`BARS`] bars where nothing is read some bars later, and after that eight pointers for
    /// every field that is read and for every output, each valid for `bars` bars and aligned to a line where results go past
    /// the caches.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run_straight(
        &self,
        whole: &Whole,
        group: &Group,
        desk: &mut Desk,
        bars: usize,
        write: Write,
    ) {
        group.set(desk);
        let entry = if write == Write::Past { whole.past } else { whole.cached };
        // SAFETY: promised by the caller; the function was made from this plan.
        unsafe { self.code.call(entry, &desk.table, bars * size_of::<f64>()) };
    }

    /// Runs a group over some bars.
    ///
    /// # Safety
    /// The desk has a valid pointer for every stream, from as far back as the group reads it to `bars` bars on, and nobody
    /// else uses those that are written.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn run(&self, group: &Group, desk: &mut Desk, bars: usize, lanes: usize, write: Write) {
        group.set(desk);
        if let Some(entry) = group.wide_past.filter(|_| group.ahead > 0 && write == Write::Past) {
            // SAFETY: promised by the caller; the function was made from this group.
            return unsafe { self.run_asking(entry, group, desk, bars) };
        }
        let wide = if lanes == 1 { bars / 8 * 8 } else { bars };
        let past = group.wide_past.filter(|_| write == Write::Past && group.in_line(desk));
        let done = match past.or(group.wide) {
            Some(entry) if wide > 0 => {
                // SAFETY: as above.
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

    /// The same for eight series, in eight parts: each of them asks for one lane's next bars.
    ///
    /// # Safety
    /// As for `run`.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    unsafe fn run_asking(&self, entry: usize, group: &Group, desk: &mut Desk, bars: usize) {
        let each = bars.div_ceil(LANES).max(1);
        let streams = STREAMS_AT + group.streams.len();
        for (lane, from) in (0..bars).step_by(each).enumerate() {
            desk.table.truncate(streams);
            let lanes = desk.ahead.chunks_exact(LANES).take(group.ahead);
            desk.table.extend(lanes.map(|l| l.get(lane).map_or(std::ptr::null_mut(), |p| p.cast_mut())));
            desk.table.resize(streams + group.ahead, std::ptr::null_mut());
            let bars = each.min(bars - from);
            // SAFETY: promised by the caller; the function only asks for what is after the streams, which no address forbids.
            unsafe { self.code.call(entry, &desk.table, bars * ROW) };
            for pointer in desk.table.iter_mut().take(streams).skip(STREAMS_AT) {
                *pointer = pointer.wrapping_add(bars * LANES);
            }
        }
    }
}

impl Group {
    fn new(
        plan: &Plan,
        steps: std::ops::Range<usize>,
        (ir, past, ahead): (&Ir, Vec<bool>, usize),
        lanes: usize,
        bytes: &mut Vec<u8>,
    ) -> Group {
        let mut function = |width: Width, traffic: Traffic<'_>| {
            // A cache line of its own.
            bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
            let at = bytes.len();
            bytes.extend(emit::emit(ir, width, 8 * lanes, traffic));
            at
        };
        let waits = ir.scans.len() < ir.states.len();
        let along_time = lanes == 1 && !waits && !ir.looks_back;
        let wide = (lanes > 1 || along_time).then(|| function(Width::Eight, Traffic::default()));
        // A load of some bars ago, at the same place in its page as a store past the caches, waits for it.
        let backwards = ir.streams.iter().any(|(_, back)| *back > 0);
        let differs = ahead > 0 || (past.contains(&true) && !backwards);
        let traffic = Traffic { past: &past, ahead };
        let wide_past = wide.filter(|_| differs).map(|_| function(Width::Eight, traffic));
        let narrow = (lanes == 1).then(|| function(Width::One, Traffic::default()));
        let steady = plan.steps.iter().skip(steps.start).take(steps.len()).map(ir::steady).max();
        let written = ir.streams.iter().zip(&ir.written);
        Group {
            steady: steady.unwrap_or(0),
            streams: written.map(|((buffer, back), written)| (*buffer, *back, *written)).collect(),
            states: ir.states.clone(),
            scans: !ir.scans.is_empty(),
            overwrites: if ir.scans.is_empty() { Vec::new() } else { Builder::overwritten(ir) },
            numbers: ir.consts.iter().map(|c| Number(c.map(f64::from_bits))).collect(),
            past,
            ahead,
            wide,
            wide_past,
            narrow,
        }
    }

    /// Its numbers and states into the table.
    fn set(&self, desk: &mut Desk) {
        if let Some(slot) = desk.table.get_mut(emit::NUMBERS_AT) {
            *slot = self.numbers.as_ptr().cast_mut().cast();
        }
        if let Some(slot) = desk.table.get_mut(emit::STATES_AT) {
            *slot = desk.states.as_mut_ptr().cast();
        }
    }

    /// Keeps what it is going to overwrite of some bars.
    ///
    /// # Safety
    /// The desk has a valid pointer for every stream, for as many bars.
    #[allow(unsafe_code, reason = "passes the caller's promise on")]
    pub(crate) unsafe fn keep(&self, desk: &mut Desk, bars: usize) {
        desk.kept.clear();
        desk.kept_from.clear();
        for from in self.overwrites.iter().filter_map(|stream| desk.table.get(STREAMS_AT + stream)) {
            desk.kept_from.push(*from);
            // SAFETY: promised by the caller.
            desk.kept.extend_from_slice(unsafe { std::slice::from_raw_parts(*from, bars) });
        }
    }

    /// Do the streams that may go past the caches begin at whole lines? Other stores do not go there.
    fn in_line(&self, desk: &Desk) -> bool {
        let streams = desk.table.iter().skip(STREAMS_AT).zip(&self.past).filter(|(_, past)| **past);
        streams.into_iter().all(|(pointer, _)| pointer.addr().is_multiple_of(LINE))
    }
}

impl Whole {
    /// `None` where something has to be delivered that no step computes, or too many rows are read some bars later.
    fn new(plan: &Plan, ir: &Ir, bytes: &mut Vec<u8>) -> Option<Whole> {
        if !plan.given.is_empty() || !plan.wholes.is_empty() || plan.outputs.is_empty() {
            return None;
        }
        let stream = |place: &Place| ir.streams.iter().position(|(buffer, _)| *buffer == place.buffer);
        let kept = |buffer: usize| plan.places().any(|p| p.buffer == buffer && p.history > 0);
        let read = plan.fields.iter().enumerate().filter_map(|(at, (_, place))| Some((at, stream(place)?)));
        let (fields, given) = read.unzip();
        let results = plan.outputs.iter().map(|p| stream(p).filter(|_| p.lag == 0)).collect::<Option<_>>()?;
        let moving: Vec<bool> = ir.streams.iter().map(|(buffer, _)| kept(*buffer)).collect();
        if moving.iter().skip(straight::MOST_MOVING).any(|m| *m) {
            return None;
        }
        let straight = Straight { given, results, moving };
        let mut function = |past: bool| {
            // A cache line of its own.
            bytes.resize(bytes.len().next_multiple_of(64), 0xcc);
            let at = bytes.len();
            bytes.extend(straight::emit(ir, &straight, past));
            at
        };
        Some(Whole { fields, cached: function(false), past: function(true) })
    }
}

/// Is this buffer one series' result that only these steps write, and nobody reads outside of them or some bars later?
fn is_last(plan: &Plan, steps: &std::ops::Range<usize>, buffer: usize, lanes: usize) -> bool {
    let outputs = plan.outputs.iter().filter(|p| p.buffer == buffer).count();
    let outside = plan.steps.iter().enumerate().filter(|(at, _)| !steps.contains(at));
    let touched = outside.flat_map(|(_, s)| s.inputs.iter().chain(&s.outputs)).any(|p| p.buffer == buffer);
    let kept = plan.places().any(|p| p.buffer == buffer && p.history > 0);
    let given = plan.fields.iter().any(|(_, p)| p.buffer == buffer) || plan.is_given_otherwise(buffer);
    lanes == 1 && outputs == 1 && !touched && !kept && !given
}

/// Does the next bar need something of this one that a loop can hand on?
pub(crate) fn goes_on(prim: &NodeOp) -> bool {
    ir::is_state(prim)
}

/// Can it be computed over several bars at once, here?
pub(crate) fn scans(prim: &NodeOp) -> bool {
    ir::is_scan(prim) && supported() && fuses()
}

/// Does anybody read earlier values of this buffer, once all has begun? Means do so only where they begin.
fn is_looked_back_at(plan: &Plan, buffer: usize) -> bool {
    use NodeOp::{Binary, Ema, FillWarmup, Select, Unary, Wilder};
    let only_now = |step: &Step| {
        matches!(step.op, UnaryOp(..) | BinaryOp(..) | Select(..) | Preceded(..) | Ema { .. } | Wilder { .. })
    };
    let reads =
        |step: &Step| step.inputs.iter().any(|p| p.buffer == buffer && (p.lag > 0 || !only_now(step)));
    plan.steps.iter().any(reads)
}

/// Results of a group that others read: steps and buffers that later steps read before they are written again.
fn exports(plan: &Plan, steps: std::ops::Range<usize>, wanted: &HashSet<usize>) -> HashSet<(usize, usize)> {
    let mut found = HashSet::new();
    for at in steps.clone() {
        for place in plan.steps.get(at).iter().flat_map(|s| &s.outputs) {
            if wanted.contains(&place.buffer) {
                found.insert((at, place.buffer));
                continue;
            }
            for (later, step) in plan.steps.iter().enumerate().skip(at + 1) {
                let reads = step.inputs.iter().any(|p| p.buffer == place.buffer);
                if reads && !steps.contains(&later) {
                    found.insert((at, place.buffer));
                    break;
                }
                if step.outputs.iter().any(|p| p.buffer == place.buffer) {
                    break;
                }
            }
        }
    }
    found
}

/// Does it multiply and add at once? Scans do.
fn fuses() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
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
