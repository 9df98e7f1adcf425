//! What would a device take for some series, and the processor? Pure: counts of work and measured rates in, times, and a
//! choice with its reason, out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::autotune::Variants;

/// Kinds of kernels, each with a rate of its own.
pub const KERNEL_KINDS: [&str; 4] = ["pointwise", "windows", "scans", "machines"];

/// What some series ask of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GpuWorkload {
    /// Bytes to the device.
    pub up: u64,
    /// Bytes back.
    pub down: u64,
    /// Submissions: one per batch and program.
    pub batches: u64,
    /// Kernel calls of all of them.
    pub dispatches: u64,
    /// Pipelines that are not compiled yet.
    pub pipelines: u64,
    /// Words that kernels read, write or loop over, by kind.
    pub units: [f64; KERNEL_KINDS.len()],
    /// Bars that follow each other in state machines, times what each takes: no number of invocations makes it shorter.
    pub chain: f64,
    /// Bytes that are in use at once on the device, at most.
    pub memory: u64,
}

/// What was measured of a device, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Opening it.
    pub open: f64,
    /// Compiling a pipeline.
    pub pipeline: f64,
    /// A submission and what is waited for it.
    pub batch: f64,
    /// A kernel call.
    pub dispatch: f64,
    /// A byte up, with bringing it into its form.
    pub up: f64,
    /// A byte down, with bringing it back.
    pub down: f64,
    /// A word, by kind of kernel.
    pub units: [f64; KERNEL_KINDS.len()],
    /// A step of a state machine after another.
    pub chain: f64,
    /// Variants that were the fastest, where they were tried.
    #[serde(default)]
    pub variants: Option<Variants>,
}

impl DeviceRates {
    /// Is every figure one that a measurement can give?
    pub fn is_sound(&self) -> bool {
        let all = [self.open, self.pipeline, self.batch, self.dispatch, self.up, self.down, self.chain];
        let figures = all.iter().chain(&self.units).all(|x| x.is_finite() && (0.0..1e3).contains(x));
        figures && self.variants.is_none_or(|v| v.is_sound())
    }
}

/// Predicted seconds on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GpuPrediction {
    /// Opening it; nothing if it is open.
    pub open: f64,
    /// Compiling.
    pub pipelines: f64,
    /// To the device.
    pub upload: f64,
    /// Submissions and kernel calls, whatever they compute.
    pub dispatch: f64,
    /// Kernels.
    pub compute: f64,
    /// Back.
    pub download: f64,
}

impl GpuPrediction {
    /// What is paid once: later series find it done.
    pub fn once(&self) -> f64 {
        self.open + self.pipelines
    }

    /// What is paid for every series.
    pub fn each(&self) -> f64 {
        self.upload + self.dispatch + self.compute + self.download
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.once() + self.each()
    }
}

/// What a workload takes at these rates.
pub fn predict(workload: &GpuWorkload, rates: &DeviceRates, is_open: bool) -> GpuPrediction {
    let [pointwise, windows, scans, machines] = std::array::from_fn(|k| {
        workload.units.get(k).zip(rates.units.get(k)).map_or(0.0, |(n, rate)| n * rate)
    });
    GpuPrediction {
        open: if is_open { 0.0 } else { rates.open },
        pipelines: workload.pipelines as f64 * rates.pipeline,
        upload: workload.up as f64 * rates.up,
        dispatch: workload.batches as f64 * rates.batch + workload.dispatches as f64 * rates.dispatch,
        compute: pointwise + windows + scans + machines.max(workload.chain * rates.chain),
        download: workload.down as f64 * rates.down,
    }
}

/// A run that was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateProbe {
    /// What it asked of the device.
    pub workload: GpuWorkload,
    /// Seconds of a run with everything compiled.
    pub wall: f64,
    /// Seconds that the device itself measured.
    pub device: Option<f64>,
    /// Seconds of the first run, which compiled.
    pub cold: f64,
}

/// Runs that tell rates apart, each by what only it has much of.
#[derive(Debug, Clone, Copy, Default)]
pub struct RateProbes {
    /// Few bars, one column: a submission.
    pub tiny: RateProbe,
    /// Few bars, many stages: dispatches.
    pub stages: RateProbe,
    /// Many bars, one column.
    pub thin: RateProbe,
    /// Many bars, several columns of arithmetic.
    pub wide: RateProbe,
    /// Many bars: windows, recurrences, state machines.
    pub kinds: [RateProbe; 3],
    /// One long series of state machines.
    pub chain: RateProbe,
}

impl RateProbes {
    /// DeviceRates that explain the runs. What noise makes negative is nothing.
    pub fn rates(&self, open: f64) -> DeviceRates {
        let rate = |seconds: f64, count: f64| if count > 0.0 { (seconds / count).max(0.0) } else { 0.0 };
        let more = |a: u64, b: u64| a.saturating_sub(b) as f64;
        let RateProbes { tiny, stages, thin, wide, kinds, chain } = self;
        let dispatch =
            rate(stages.wall - tiny.wall, more(stages.workload.dispatches, tiny.workload.dispatches));
        let batch = (tiny.wall - dispatch * tiny.workload.dispatches as f64).max(0.0);
        // Where the device keeps no time, arithmetic counts as part of bringing its results back.
        let moving = |p: &RateProbe| p.wall - p.device.unwrap_or(0.0);
        let down = rate(moving(wide) - moving(thin), more(wide.workload.down, thin.workload.down));
        let thin_up = moving(thin) - moving(tiny) - down * more(thin.workload.down, tiny.workload.down);
        let up = rate(thin_up, more(thin.workload.up, tiny.workload.up));
        // Where noise leaves nothing for one of the two, they share what both took.
        let moved = more(wide.workload.up, tiny.workload.up) + more(wide.workload.down, tiny.workload.down);
        let shared = rate(moving(wide) - moving(tiny), moved);
        let (up, down) = if up > 0.0 && down > 0.0 { (up, down) } else { (shared, shared) };
        let mut rates = DeviceRates {
            open,
            pipeline: 0.0,
            batch,
            dispatch,
            up,
            down,
            units: [0.0; KERNEL_KINDS.len()],
            chain: 0.0,
            variants: None,
        };
        let set = |units: &mut [f64; KERNEL_KINDS.len()], kind: usize, x: f64| {
            units.iter_mut().skip(kind).take(1).for_each(|u| *u = x);
        };
        let first = wide.workload.units.first().copied().unwrap_or(0.0);
        set(&mut rates.units, 0, rate(wide.device.unwrap_or(0.0), first));
        for (kind, probe) in kinds.iter().enumerate().map(|(k, p)| (k + 1, p)) {
            let count = probe.workload.units.get(kind).copied().unwrap_or(0.0);
            let rest = predict(&probe.workload, &rates, true).each();
            set(&mut rates.units, kind, rate(probe.wall - rest, count));
        }
        let others = GpuWorkload { chain: 0.0, units: [0.0; KERNEL_KINDS.len()], ..chain.workload };
        rates.chain = rate(chain.wall - predict(&others, &rates, true).each(), chain.workload.chain);
        let all = [tiny, stages, thin, wide, chain];
        let compiled = all.into_iter().chain(kinds).filter(|p| p.workload.pipelines > 0);
        let (seconds, pipelines) = compiled
            .fold((0.0, 0.0), |(s, n), p| (s + (p.cold - p.wall).max(0.0), n + p.workload.pipelines as f64));
        rates.pipeline = rate(seconds, pipelines);
        rates
    }
}

/// How far predictions of a side are off, by what its runs took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Correction(pub f64);

/// A single run may be off by so much; more is a mistake of the clock or of somebody else's work.
const MOST_OFF: f64 = 64.0;

impl Default for Correction {
    fn default() -> Self {
        Correction(1.0)
    }
}

impl Correction {
    /// Half of what was believed, half of what was seen: two runs put a wrong model nearly right.
    pub fn learn(self, predicted: f64, measured: f64) -> Self {
        if predicted <= 0.0 || measured <= 0.0 {
            return self;
        }
        let seen = (measured / predicted).clamp(1.0 / MOST_OFF, MOST_OFF);
        Correction((self.0 * seen).sqrt())
    }
}

/// Where something is computed, or should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// Where it is fastest.
    #[default]
    Auto,
    /// On the processor.
    Cpu,
    /// On a device.
    Gpu,
}

/// Why a side was chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementReason {
    /// The user asked for it in the command.
    Asked,
    /// The settings ask for it.
    Setting,
    /// It is predicted to take so many times less.
    Faster(f64),
    /// It would be faster, but not by what opening and compiling take.
    NotYet,
    /// Measuring a device would take longer than the work.
    TooLittle,
    /// No column is computed on devices.
    NothingSuits,
    /// There is no device, or it failed, for this reason.
    NoDevice(String),
}

impl fmt::Display for PlacementReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementReason::Asked => f.write_str("it was asked for"),
            PlacementReason::Setting => f.write_str("the settings ask for it"),
            PlacementReason::Faster(times) => write!(f, "it is predicted to be {times:.1} times as fast"),
            PlacementReason::NotYet => {
                f.write_str("a device would be faster, but not by what opening it and compiling take")
            }
            PlacementReason::TooLittle => {
                f.write_str("there is too little work to pay for measuring a device")
            }
            PlacementReason::NothingSuits => f.write_str("no selected column is computed on devices"),
            PlacementReason::NoDevice(why) => write!(f, "no device: {why}"),
        }
    }
}

impl Serialize for PlacementReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A side, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacementDecision {
    /// Never [`DeviceChoice::Auto`].
    pub place: DeviceChoice,
    /// Why.
    pub reason: PlacementReason,
}

impl PlacementDecision {
    /// The processor, for this reason.
    pub fn cpu(reason: PlacementReason) -> Self {
        PlacementDecision { place: DeviceChoice::Cpu, reason }
    }

    /// A device, for this reason.
    pub fn gpu(reason: PlacementReason) -> Self {
        PlacementDecision { place: DeviceChoice::Gpu, reason }
    }
}

/// What is asked for in the command comes first, then the settings; `None` leaves it to measurements.
pub fn explicit_choice(asked: DeviceChoice, setting: DeviceChoice) -> Option<PlacementDecision> {
    let of = |device: DeviceChoice, reason: PlacementReason| match device {
        DeviceChoice::Auto => None,
        place => Some(PlacementDecision { place, reason }),
    };
    of(asked, PlacementReason::Asked).or_else(|| of(setting, PlacementReason::Setting))
}

/// The faster side for some series. What a device needs once is paid by these series, or by those that came before: after
/// the processor has lost as much as that on series like these (`spent` seconds so far), it is likely to go on.
pub fn choose_faster(cpu: f64, gpu: &GpuPrediction, spent: f64) -> PlacementDecision {
    let (each, once) = (gpu.each(), gpu.once());
    if each >= cpu {
        return PlacementDecision::cpu(PlacementReason::Faster(gpu.total() / cpu.max(1e-9)));
    }
    let lost = spent * (1.0 - each / cpu);
    if each + once < cpu || once < lost {
        PlacementDecision::gpu(PlacementReason::Faster(cpu / each.max(1e-9)))
    } else {
        PlacementDecision::cpu(PlacementReason::NotYet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: DeviceRates = DeviceRates {
        open: 0.2,
        pipeline: 0.03,
        batch: 2e-4,
        dispatch: 1e-5,
        up: 1e-9,
        down: 2e-9,
        units: [1e-10, 2e-10, 4e-10, 8e-10],
        chain: 3e-8,
        variants: None,
    };

    /// A run that takes exactly what the rates say.
    fn probe(workload: GpuWorkload) -> RateProbe {
        let p = predict(&workload, &RATES, true);
        let wall = p.each();
        RateProbe { workload, wall, device: Some(p.compute), cold: wall + p.pipelines }
    }

    fn workload(up: u64, down: u64, dispatches: u64, units: [f64; 4]) -> GpuWorkload {
        GpuWorkload { up, down, dispatches, units, batches: 1, pipelines: 2, ..GpuWorkload::default() }
    }

    #[test]
    fn rates_come_back_from_what_they_explain() {
        let chain = GpuWorkload { chain: 1e6, ..workload(1 << 12, 1 << 12, 3, [0.0; 4]) };
        let probes = RateProbes {
            tiny: probe(workload(0, 0, 2, [0.0; 4])),
            stages: probe(workload(0, 0, 40, [0.0; 4])),
            thin: probe(workload(1 << 20, 1 << 20, 2, [5e5, 0.0, 0.0, 0.0])),
            wide: probe(workload(1 << 20, 8 << 20, 2, [4e6, 0.0, 0.0, 0.0])),
            kinds: std::array::from_fn(|k| {
                let mut units = [0.0; 4];
                units[k + 1] = 3e6;
                probe(workload(1 << 20, 4 << 20, 3, units))
            }),
            chain: probe(chain),
        };
        let found = probes.rates(RATES.open);
        assert!(found.is_sound());
        let pairs = [
            (found.pipeline, RATES.pipeline),
            (found.batch, RATES.batch),
            (found.dispatch, RATES.dispatch),
            (found.up, RATES.up),
            (found.down, RATES.down),
            (found.chain, RATES.chain),
        ];
        let units = found.units.into_iter().zip(RATES.units);
        for (got, want) in pairs.into_iter().chain(units) {
            assert!((got / want - 1.0).abs() < 1e-6, "{got} for {want}");
        }
        assert!(
            !DeviceRates { up: f64::NAN, ..RATES }.is_sound()
                && !DeviceRates { open: -1.0, ..RATES }.is_sound()
        );
    }

    #[test]
    fn a_chain_bounds_state_machines_from_below() {
        let work = GpuWorkload { units: [0.0, 0.0, 0.0, 1e6], chain: 1e5, ..GpuWorkload::default() };
        assert_eq!(predict(&work, &RATES, true).compute, 1e5 * RATES.chain);
        let many = GpuWorkload { units: [0.0, 0.0, 0.0, 1e9], ..work };
        assert_eq!(predict(&many, &RATES, true).compute, 1e9 * 8e-10);
        assert_eq!(predict(&work, &RATES, true).open, 0.0);
        assert_eq!(predict(&work, &RATES, false).open, RATES.open);
    }

    #[test]
    fn what_is_asked_comes_before_settings_and_those_before_measurements() {
        use DeviceChoice::{Auto, Cpu, Gpu};
        assert_eq!(explicit_choice(Gpu, Cpu), Some(PlacementDecision::gpu(PlacementReason::Asked)));
        assert_eq!(explicit_choice(Cpu, Gpu), Some(PlacementDecision::cpu(PlacementReason::Asked)));
        assert_eq!(explicit_choice(Auto, Cpu), Some(PlacementDecision::cpu(PlacementReason::Setting)));
        assert_eq!(explicit_choice(Auto, Gpu), Some(PlacementDecision::gpu(PlacementReason::Setting)));
        assert_eq!(explicit_choice(Auto, Auto), None);
    }

    #[test]
    fn the_faster_side_wins_and_what_is_paid_once_must_be_earned() {
        let gpu = GpuPrediction { open: 1.0, compute: 0.5, ..GpuPrediction::default() };
        assert_eq!(choose_faster(0.4, &gpu, 100.0).place, DeviceChoice::Cpu);
        assert_eq!(choose_faster(1.0, &gpu, 0.0), PlacementDecision::cpu(PlacementReason::NotYet));
        // Two seconds on the processor would have been one on the device: opening it has been paid.
        assert_eq!(choose_faster(1.0, &gpu, 1.9).place, DeviceChoice::Cpu);
        assert_eq!(choose_faster(1.0, &gpu, 2.1), PlacementDecision::gpu(PlacementReason::Faster(2.0)));
        assert_eq!(choose_faster(1.6, &gpu, 0.0).place, DeviceChoice::Gpu);
    }

    #[test]
    fn corrections_approach_what_is_seen_and_ignore_nonsense() {
        let mut c = Correction::default();
        (0..8).for_each(|_| c = c.learn(1.0, 4.0));
        assert!((c.0 - 4.0).abs() < 0.05, "{c:?}");
        assert_eq!(c.learn(0.0, 1.0), c);
        assert!(Correction::default().learn(1.0, 1e9).0 <= MOST_OFF);
    }
}
