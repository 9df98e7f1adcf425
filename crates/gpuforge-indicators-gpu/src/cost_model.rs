//! Cost model: predicted seconds on a device from workload counts and calibrated rates, and the choice of CPU or GPU with its
//! reason. Pure functions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::autotune::Variants;

/// Kernel kinds, each with a rate of its own.
pub const KERNEL_KINDS: [&str; 4] = ["pointwise", "windows", "scans", "machines"];

/// The work of a batch on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GpuWorkload {
    /// Bytes uploaded.
    pub up: u64,
    /// Bytes downloaded.
    pub down: u64,
    /// Submissions: one per batch and program.
    pub batches: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Pipelines still to compile.
    pub pipelines: u64,
    /// Words read, written or looped over, by kernel kind.
    pub units: [f64; KERNEL_KINDS.len()],
    /// Critical path of state machines: bars in sequence times iterations per bar. Parallelism does not shorten it.
    #[serde(rename = "chain")]
    pub sequential: f64,
    /// Peak device memory in bytes.
    pub memory: u64,
}

/// Calibrated rates of a device, in seconds per unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// Opening the device.
    pub open: f64,
    /// Compiling a pipeline.
    pub pipeline: f64,
    /// A submission and its wait.
    pub batch: f64,
    /// A dispatch.
    pub dispatch: f64,
    /// A byte uploaded, with its encoding.
    pub up: f64,
    /// A byte downloaded, with its decoding.
    pub down: f64,
    /// A word, by kernel kind.
    pub units: [f64; KERNEL_KINDS.len()],
    /// A sequential step of a state machine.
    #[serde(rename = "chain")]
    pub sequential: f64,
    /// Autotuned kernel variants, if they were measured.
    #[serde(default)]
    pub variants: Option<Variants>,
}

impl DeviceRates {
    /// Is every rate plausible?
    pub fn is_sound(&self) -> bool {
        let all = [self.open, self.pipeline, self.batch, self.dispatch, self.up, self.down, self.sequential];
        let figures = all.iter().chain(&self.units).all(|x| x.is_finite() && (0.0..1e3).contains(x));
        figures && self.variants.is_none_or(|v| v.is_sound())
    }
}

/// Predicted seconds on a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct GpuPrediction {
    /// Opening the device; 0 if it is open.
    pub open: f64,
    /// Compiling pipelines.
    pub pipelines: f64,
    /// Upload.
    pub upload: f64,
    /// Submission and dispatch overhead.
    pub dispatch: f64,
    /// Kernel execution.
    pub compute: f64,
    /// Download.
    pub download: f64,
}

impl GpuPrediction {
    /// One-time cost.
    pub fn once(&self) -> f64 {
        self.open + self.pipelines
    }

    /// Recurring cost.
    pub fn each(&self) -> f64 {
        self.upload + self.dispatch + self.compute + self.download
    }

    /// Total cost.
    pub fn total(&self) -> f64 {
        self.once() + self.each()
    }
}

/// Predicts a workload at these rates.
pub fn predict(workload: &GpuWorkload, rates: &DeviceRates, is_open: bool) -> GpuPrediction {
    let [pointwise, windows, scans, machines] = std::array::from_fn(|k| {
        workload.units.get(k).zip(rates.units.get(k)).map_or(0.0, |(n, rate)| n * rate)
    });
    GpuPrediction {
        open: if is_open { 0.0 } else { rates.open },
        pipelines: workload.pipelines as f64 * rates.pipeline,
        upload: workload.up as f64 * rates.up,
        dispatch: workload.batches as f64 * rates.batch + workload.dispatches as f64 * rates.dispatch,
        compute: pointwise + windows + scans + machines.max(workload.sequential * rates.sequential),
        download: workload.down as f64 * rates.down,
    }
}

/// A measured calibration run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RateProbe {
    /// Its workload.
    pub workload: GpuWorkload,
    /// Seconds of a warm run.
    pub wall: f64,
    /// Seconds by the device's timestamp queries.
    pub device: Option<f64>,
    /// Seconds of the cold run, which compiled.
    pub cold: f64,
}

/// Calibration runs, each dominated by one cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct RateProbes {
    /// Few bars, one column: submission cost.
    pub tiny: RateProbe,
    /// Few bars, many stages: dispatch cost.
    pub stages: RateProbe,
    /// Many bars, one column: upload cost.
    pub thin: RateProbe,
    /// Many bars, several pointwise columns: download cost.
    pub wide: RateProbe,
    /// Many bars: rolling windows, scans, state machines.
    pub kinds: [RateProbe; 3],
    /// One long series of state machines: sequential cost.
    pub sequential: RateProbe,
}

impl RateProbes {
    /// Solves for the rates; negative ones (noise) become 0.
    pub fn rates(&self, open: f64) -> DeviceRates {
        let rate = |seconds: f64, count: f64| if count > 0.0 { (seconds / count).max(0.0) } else { 0.0 };
        let more = |a: u64, b: u64| a.saturating_sub(b) as f64;
        let RateProbes { tiny, stages, thin, wide, kinds, sequential } = self;
        let dispatch =
            rate(stages.wall - tiny.wall, more(stages.workload.dispatches, tiny.workload.dispatches));
        let batch = (tiny.wall - dispatch * tiny.workload.dispatches as f64).max(0.0);
        // Without timestamp queries, pointwise time counts as download time.
        let transfer = |p: &RateProbe| p.wall - p.device.unwrap_or(0.0);
        let down = rate(transfer(wide) - transfer(thin), more(wide.workload.down, thin.workload.down));
        let thin_up = transfer(thin) - transfer(tiny) - down * more(thin.workload.down, tiny.workload.down);
        let up = rate(thin_up, more(thin.workload.up, tiny.workload.up));
        // Where noise leaves 0 for one direction, both share the total.
        let bytes = more(wide.workload.up, tiny.workload.up) + more(wide.workload.down, tiny.workload.down);
        let shared = rate(transfer(wide) - transfer(tiny), bytes);
        let (up, down) = if up > 0.0 && down > 0.0 { (up, down) } else { (shared, shared) };
        let mut rates = DeviceRates {
            open,
            pipeline: 0.0,
            batch,
            dispatch,
            up,
            down,
            units: [0.0; KERNEL_KINDS.len()],
            sequential: 0.0,
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
        let others = GpuWorkload { sequential: 0.0, units: [0.0; KERNEL_KINDS.len()], ..sequential.workload };
        rates.sequential =
            rate(sequential.wall - predict(&others, &rates, true).each(), sequential.workload.sequential);
        let all = [tiny, stages, thin, wide, sequential];
        let compiled = all.into_iter().chain(kinds).filter(|p| p.workload.pipelines > 0);
        let (seconds, pipelines) = compiled
            .fold((0.0, 0.0), |(s, n), p| (s + (p.cold - p.wall).max(0.0), n + p.workload.pipelines as f64));
        rates.pipeline = rate(seconds, pipelines);
        rates
    }
}

/// Multiplicative correction of a side's predictions, learnt from measured runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Correction(pub f64);

/// Clamp of a single observation: more is interference or a clock error.
const MAX_RATIO: f64 = 64.0;

impl Default for Correction {
    fn default() -> Self {
        Correction(1.0)
    }
}

impl Correction {
    /// Geometric EMA with weight 1/2: two runs nearly correct a wrong model.
    pub fn learn(self, predicted: f64, measured: f64) -> Self {
        if predicted <= 0.0 || measured <= 0.0 {
            return self;
        }
        let ratio = (measured / predicted).clamp(1.0 / MAX_RATIO, MAX_RATIO);
        Correction((self.0 * ratio).sqrt())
    }
}

/// A requested or chosen side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The faster side, by the cost model.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU or other adapter.
    Gpu,
}

/// Why a side was chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementReason {
    /// Requested by the command.
    Asked,
    /// Requested by the settings.
    Setting,
    /// Predicted to be so many times as fast.
    Faster(f64),
    /// A device would be faster, but has not amortised opening and compiling.
    NotYet,
    /// Calibrating a device would take longer than the work.
    TooLittle,
    /// No column is eligible for a device.
    NothingSuits,
    /// No device, or it failed, with the reason.
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

/// The chosen side, with the reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlacementDecision {
    /// The side; never [`DeviceChoice::Auto`].
    pub place: DeviceChoice,
    /// Why.
    pub reason: PlacementReason,
}

impl PlacementDecision {
    /// The CPU, for this reason.
    pub fn cpu(reason: PlacementReason) -> Self {
        PlacementDecision { place: DeviceChoice::Cpu, reason }
    }

    /// A device, for this reason.
    pub fn gpu(reason: PlacementReason) -> Self {
        PlacementDecision { place: DeviceChoice::Gpu, reason }
    }
}

/// The explicit choice: the command's, else the settings'; `None` leaves it to the cost model.
pub fn explicit_choice(asked: DeviceChoice, setting: DeviceChoice) -> Option<PlacementDecision> {
    let of = |device: DeviceChoice, reason: PlacementReason| match device {
        DeviceChoice::Auto => None,
        place => Some(PlacementDecision { place, reason }),
    };
    of(asked, PlacementReason::Asked).or_else(|| of(setting, PlacementReason::Setting))
}

/// The faster side for a batch. One-time costs must be amortised by this batch, or by earlier ones: after the CPU has lost as
/// much as they cost on batches like this (`spent` CPU seconds so far), more are likely to follow (ski rental).
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
        sequential: 3e-8,
        variants: None,
    };

    /// A run that takes exactly the predicted time.
    fn probe(workload: GpuWorkload) -> RateProbe {
        let p = predict(&workload, &RATES, true);
        let wall = p.each();
        RateProbe { workload, wall, device: Some(p.compute), cold: wall + p.pipelines }
    }

    fn workload(up: u64, down: u64, dispatches: u64, units: [f64; 4]) -> GpuWorkload {
        GpuWorkload { up, down, dispatches, units, batches: 1, pipelines: 2, ..GpuWorkload::default() }
    }

    #[test]
    fn rates_are_recovered_from_exact_probes() {
        let sequential = GpuWorkload { sequential: 1e6, ..workload(1 << 12, 1 << 12, 3, [0.0; 4]) };
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
            sequential: probe(sequential),
        };
        let found = probes.rates(RATES.open);
        assert!(found.is_sound());
        let pairs = [
            (found.pipeline, RATES.pipeline),
            (found.batch, RATES.batch),
            (found.dispatch, RATES.dispatch),
            (found.up, RATES.up),
            (found.down, RATES.down),
            (found.sequential, RATES.sequential),
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
    fn sequential_path_bounds_state_machines_from_below() {
        let work = GpuWorkload { units: [0.0, 0.0, 0.0, 1e6], sequential: 1e5, ..GpuWorkload::default() };
        assert_eq!(predict(&work, &RATES, true).compute, 1e5 * RATES.sequential);
        let many = GpuWorkload { units: [0.0, 0.0, 0.0, 1e9], ..work };
        assert_eq!(predict(&many, &RATES, true).compute, 1e9 * 8e-10);
        assert_eq!(predict(&work, &RATES, true).open, 0.0);
        assert_eq!(predict(&work, &RATES, false).open, RATES.open);
    }

    #[test]
    fn command_overrides_settings_and_settings_override_the_cost_model() {
        use DeviceChoice::{Auto, Cpu, Gpu};
        assert_eq!(explicit_choice(Gpu, Cpu), Some(PlacementDecision::gpu(PlacementReason::Asked)));
        assert_eq!(explicit_choice(Cpu, Gpu), Some(PlacementDecision::cpu(PlacementReason::Asked)));
        assert_eq!(explicit_choice(Auto, Cpu), Some(PlacementDecision::cpu(PlacementReason::Setting)));
        assert_eq!(explicit_choice(Auto, Gpu), Some(PlacementDecision::gpu(PlacementReason::Setting)));
        assert_eq!(explicit_choice(Auto, Auto), None);
    }

    #[test]
    fn faster_side_wins_and_one_time_costs_must_be_amortised() {
        let gpu = GpuPrediction { open: 1.0, compute: 0.5, ..GpuPrediction::default() };
        assert_eq!(choose_faster(0.4, &gpu, 100.0).place, DeviceChoice::Cpu);
        assert_eq!(choose_faster(1.0, &gpu, 0.0), PlacementDecision::cpu(PlacementReason::NotYet));
        // Two CPU seconds would have been one on the device: opening it is amortised.
        assert_eq!(choose_faster(1.0, &gpu, 1.9).place, DeviceChoice::Cpu);
        assert_eq!(choose_faster(1.0, &gpu, 2.1), PlacementDecision::gpu(PlacementReason::Faster(2.0)));
        assert_eq!(choose_faster(1.6, &gpu, 0.0).place, DeviceChoice::Gpu);
    }

    #[test]
    fn correction_converges_and_ignores_invalid_times() {
        let mut c = Correction::default();
        (0..8).for_each(|_| c = c.learn(1.0, 4.0));
        assert!((c.0 - 4.0).abs() < 0.05, "{c:?}");
        assert_eq!(c.learn(0.0, 1.0), c);
        assert!(Correction::default().learn(1.0, 1e9).0 <= MAX_RATIO);
    }
}
