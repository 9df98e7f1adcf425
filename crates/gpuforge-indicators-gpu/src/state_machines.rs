//! State machine kernels: sequential indicators on a device, one row per machine of the catalogue with its mode and constants.
//!
//! A machine steps through a series bar by bar, an invocation per series (`shader/state_machine*.wgsl`, one kernel for all of
//! them). Two depend on at most 50 bars and are computed as rolling windows ([`window_of`]). What depends on parameters alone
//! is precomputed here, in f64.

use std::f64::consts::{PI, SQRT_2, TAU};

use Response::{
    Average, Clamped, Count, Distances, Filter, Held, Oscillator, Phase, RatioAverage, Residual, Selected,
    Smoothed, Trailing,
};

/// WGSL of the state machine kernel, to follow `common.wgsl`.
pub const SHADER: &str = concat!(
    include_str!("../shader/state_machine.wgsl"),
    include_str!("../shader/state_machine_atan2.wgsl"),
    include_str!("../shader/state_machine_filter.wgsl"),
    include_str!("../shader/state_machine_trailing_stop.wgsl"),
    include_str!("../shader/state_machine_sum.wgsl"),
    include_str!("../shader/state_machine_hilbert.wgsl"),
);

/// WGSL of the windowed state machines, likewise.
pub const WINDOW_SHADER: &str = concat!(
    include_str!("../shader/state_machine_atan2.wgsl"),
    include_str!("../shader/rolling_state_machine.wgsl")
);

/// How a machine's outputs depend on its inputs, for the bound of their rounding errors ([`crate::conditioning`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// Follows its first input like a moving average; any other output is a deviation from it.
    Average,
    /// The same by ratios to its first input, which must not be next to 0.
    RatioAverage,
    /// Follows its inputs by steps of its own, and turns where they cross; a second output is the side.
    Trailing,
    /// Linear filter; its gain at frequency 0 is this parameter, or 0.
    Filter {
        /// Index of the parameter.
        gain: Option<usize>,
    },
    /// Distances of averages from the first input, kept as such.
    Distances,
    /// Difference of its two inputs.
    Residual,
    /// Picks or holds values of its inputs, decided by comparing them.
    Selected {
        /// Number of outputs that are values; those after them are counts.
        values: usize,
    },
    /// Holds its first input, decided by a mask.
    Held,
    /// Counts and masks, decided by comparing its inputs.
    Count,
    /// Ranks of its inputs within a window, which must have no error: rounding would break ties.
    Ranks,
    /// Quotient of smoothed changes of its first input.
    Oscillator,
    /// Smooths its first input, which has no level.
    Smoothed,
    /// The same, clamped below 1.
    Clamped,
    /// Deviation of its first input within a window, whose length is the first parameter.
    Deviation,
    /// Linearly weighted sum of a window, whose length is the first parameter.
    WeightedSum,
    /// Feeds its own phase or period back: rounding errors grow.
    Phase,
}

/// A state machine on a device.
#[derive(Debug, Clone, Copy)]
pub struct GpuStateMachine {
    /// Name of the machine.
    pub name: &'static str,
    /// How its outputs depend on its inputs.
    pub response: Response,
    /// Function of the kernel.
    pub mode: u32,
    /// Words of state per series, in the job's scratch column.
    pub state: u32,
    /// Loop iterations per bar.
    pub per_bar: u32,
    /// Inputs of the machine that the job reads, in this order: at most four.
    pub reads: &'static [usize],
    /// Is it supported with these parameters?
    pub fits: fn(&[f64]) -> bool,
    /// The job's constants, from the machine's parameters.
    pub constants: fn(&[f64]) -> Vec<f32>,
}

/// A state machine that is computed as a rolling window.
#[derive(Debug, Clone, Copy)]
pub struct WindowedStateMachine {
    /// Name of the machine.
    pub name: &'static str,
    /// How its outputs depend on its inputs.
    pub response: Response,
    /// Function of the kernel.
    pub mode: u32,
    /// Window length in bars.
    pub n: u32,
    /// Loop iterations per bar.
    pub step_iterations: u32,
    /// Loop iterations to set up a slice.
    pub setup_iterations: u32,
    /// Preferred bars per slice.
    pub slice: u32,
    /// The job's constants, from the machine's parameters.
    pub constants: fn(&[f64]) -> Vec<f32>,
}

/// The row of a machine; `None` where it is unsupported.
pub fn of(name: &str, params: &[f64]) -> Option<&'static GpuStateMachine> {
    MACHINES.iter().find(|m| m.name == name && (m.fits)(params))
}

/// The same for a machine computed as a rolling window.
pub fn window_of(name: &str) -> Option<&'static WindowedStateMachine> {
    WINDOWED.iter().find(|m| m.name == name)
}

/// Machines whose state is a window: jobs of the rolling kernels ([`crate::rolling`]).
pub const ROLLING: [(&str, Response); 6] = [
    ("median deviation", Response::Deviation),
    ("spearman", Response::Ranks),
    ("projection", Selected { values: 2 }),
    ("volume profile", Selected { values: 3 }),
    ("rolling vwap", Response::Average),
    ("running wma sum", Response::WeightedSum),
];

/// The response of a machine; `None` where no kernel computes it.
pub fn response(name: &str) -> Option<Response> {
    let sequential = MACHINES.iter().map(|m| (m.name, m.response));
    let windowed = WINDOWED.iter().map(|m| (m.name, m.response));
    sequential.chain(windowed).chain(ROLLING).find(|(n, _)| *n == name).map(|(_, response)| response)
}

const ONE: &[usize] = &[0];
const TWO: &[usize] = &[0, 1];
const THREE: &[usize] = &[0, 1, 2];
const FOUR: &[usize] = &[0, 1, 2, 3];

const fn row(name: &'static str, mode: u32, reads: &'static [usize], response: Response) -> GpuStateMachine {
    let constants = |p: &[f64]| p.iter().map(|x| *x as f32).collect();
    GpuStateMachine { name, response, mode, state: 32, per_bar: 1, reads, fits: |_| true, constants }
}

/// Modes are those of the `switch` in `state_machine.wgsl`.
const MACHINES: &[GpuStateMachine] = &[
    GpuStateMachine { constants: linear, ..row("linear", 0, ONE, Filter { gain: Some(6) }) },
    GpuStateMachine { constants: zero_mean, ..row("two pole filter", 0, ONE, Filter { gain: None }) },
    row("mcginley", 1, ONE, RatioAverage),
    row("holt_winters", 2, ONE, Average),
    row("laguerre_filter", 3, ONE, Average),
    row("laguerre", 4, ONE, Distances),
    row("kalman_level", 5, ONE, Average),
    GpuStateMachine { constants: jurik, ..row("jurik", 6, ONE, Average) },
    row("mama", 7, TWO, Phase),
    GpuStateMachine { constants: even_better, ..row("even better sine wave", 8, ONE, Oscillator) },
    GpuStateMachine { constants: rsx, ..row("rsx", 9, ONE, Oscillator) },
    row("decay", 10, ONE, Trailing),
    row("clamped", 11, ONE, Clamped),
    GpuStateMachine { constants: parabolic, ..row("parabolic", 12, TWO, Trailing) },
    row("ratchet", 13, THREE, Selected { values: 1 }),
    row("profit_max", 14, THREE, Selected { values: 1 }),
    GpuStateMachine { constants: zigzag, ..row("zigzag", 15, TWO, Selected { values: 1 }) },
    // Its last input must be a session number. With a parameter (seconds of a session) it is a time, which f32 cannot hold.
    GpuStateMachine { fits: |p| p.is_empty(), ..row("previous_session", 16, FOUR, Selected { values: 3 }) },
    row("qqe", 17, TWO, Selected { values: 3 }),
    row("hold", 18, TWO, Held),
    row("settled", 19, TWO, Residual),
    row("streak", 20, TWO, Count),
    GpuStateMachine {
        constants: |p| vec![at(p, 0).min(f64::from(f32::MAX)) as f32],
        ..row("run", 21, ONE, Count)
    },
    row("daily running record", 22, TWO, Selected { values: 1 }),
    row("hikkake", 23, FOUR, Count),
    GpuStateMachine {
        constants: |p| fraction(at(p, 0)).to_vec(),
        ..row("close above body fraction", 24, THREE, Count)
    },
    row("correlation phase angle", 25, TWO, Smoothed),
    GpuStateMachine { constants: |p| vec![at(p, 0) as f32, 1.0], ..row("anchored vwap", 26, THREE, Average) },
    GpuStateMachine { constants: |_| vec![0.0, 0.0], ..row("cumulative vwap", 26, TWO, Average) },
    row("previous day anchored vwap", 27, FOUR, Average),
    row("expanding regression", 28, ONE, Average),
    GpuStateMachine {
        constants: |p| vec![(at(p, 0) - 3.0).max(0.0) as f32],
        ..row("hilbert cycle", 29, ONE, Phase)
    },
    // Sine and lead are functions of the phase, which is read instead.
    row("hilbert mode", 30, &[0, 3, 4, 5], Phase),
];

/// The longest cycle in bars.
const LONGEST: u32 = 50;

/// Modes are those of `rolling_state_machine.wgsl`. A step reads one cycle, in up to three segments.
const WINDOWED: &[WindowedStateMachine] = &[
    WindowedStateMachine {
        name: "hilbert phase",
        response: Phase,
        mode: 0,
        n: LONGEST,
        step_iterations: LONGEST + 8,
        setup_iterations: 1,
        slice: 32,
        constants: twiddles,
    },
    WindowedStateMachine {
        name: "hilbert trend line",
        response: Phase,
        mode: 1,
        n: LONGEST + 3,
        step_iterations: LONGEST + 8,
        setup_iterations: 3 * (LONGEST + 8),
        slice: 32,
        constants: |_| Vec::new(),
    },
];

fn at(params: &[f64], i: usize) -> f64 {
    params.get(i).copied().unwrap_or(0.0)
}

fn rounded<const N: usize>(constants: [f64; N]) -> Vec<f32> {
    constants.iter().map(|x| *x as f32).collect()
}

/// From b0, b1, b2, a1, a2, a3, gain, copied bars. `gain` must be the DC gain.
fn linear(p: &[f64]) -> Vec<f32> {
    let (b1, b2, a1, a2, a3) = (at(p, 1), at(p, 2), at(p, 3), at(p, 4), at(p, 5));
    rounded([at(p, 6), 1.0 - a1 - a2 - a3, -(a2 + a3), -a3, -(b1 + b2), -b2, at(p, 7)])
}

/// From gain, b1, b2 (relative to it), a1, a2: a linear filter with DC gain 0.
fn zero_mean(p: &[f64]) -> Vec<f32> {
    let gain = at(p, 0);
    linear(&[gain, gain * at(p, 1), gain * at(p, 2), at(p, 3), at(p, 4), 0.0, 0.0, 0.0])
}

/// From period and phase; logarithms of the bases that are raised to a power at every bar.
fn jurik(p: &[f64]) -> Vec<f32> {
    let half = 0.5 * (at(p, 0) - 1.0);
    let length = (half.sqrt().log2() + 2.0).max(0.0);
    let power = (length - 2.0).max(0.5);
    let band = length * half.sqrt();
    let beta = 0.9 * half / (0.9 * half + 2.0);
    // Clamped: f32 cannot tell smaller ones from 0.
    let log = |x: f64| x.log2().max(-1000.0);
    let phase = (1.5 + 0.01 * at(p, 1)).clamp(0.5, 2.5);
    rounded([beta, 1.0 - beta, log(beta), log(band / (band + 1.0)), length.powf(1.0 / power), power, phase])
}

/// From the periods of high-pass and smoother.
fn even_better(p: &[f64]) -> Vec<f32> {
    let (angle, x) = (TAU / at(p, 0), SQRT_2 * PI / at(p, 1));
    let a = (-x).exp();
    let alpha = (1.0 - angle.sin()) / angle.cos();
    rounded([alpha, 0.5 * (1.0 + alpha), 1.0 - 2.0 * a * x.cos() + a * a, a * a])
}

fn rsx(p: &[f64]) -> Vec<f32> {
    let n = at(p, 0);
    rounded([3.0 / (n + 2.0), (n.trunc() - 1.0).max(5.0)])
}

fn parabolic(p: &[f64]) -> Vec<f32> {
    let limited = |i: usize, limit: usize| at(p, i).min(at(p, limit));
    let (rising, falling) = ([limited(2, 4), limited(3, 4)], [limited(5, 7), limited(6, 7)]);
    rounded([at(p, 0), at(p, 1), rising[0], rising[1], at(p, 4), falling[0], falling[1], at(p, 7)])
}

/// From percent and bars.
fn zigzag(p: &[f64]) -> Vec<f32> {
    let [a, b] = fraction(at(p, 0) / 100.0);
    vec![a, b, at(p, 1).trunc() as f32]
}

/// A ratio as a fraction with a small denominator, so that integers are compared with integers; else over 1.
fn fraction(share: f64) -> [f32; 2] {
    let found = (1..=1000).map(f64::from).find(|b| (share * b - (share * b).round()).abs() < 1e-9);
    found.map_or([share as f32, 1.0], |b| [(share * b).round() as f32, b as f32])
}

/// Twiddle factors: sine and cosine of the steps 1 to n - 1 of a cycle of n bars, for every n.
fn twiddles(_: &[f64]) -> Vec<f32> {
    let step = |n: u32, i: u32| (f64::from(i) * TAU / f64::from(n)).sin_cos();
    let steps = (1..=LONGEST).flat_map(|n| (1..n).map(move |i| step(n, i)));
    steps.flat_map(|(sin, cos)| [sin as f32, cos as f32]).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
    use std::collections::BTreeMap;

    use gpuforge_indicators::{
        catalogue,
        graph::NodeOp,
        select::{self, Instance, SelectItem},
    };

    use super::*;

    /// A machine's outputs, and the inputs and parameters of its uses.
    type Uses = (usize, Vec<(usize, Vec<f64>)>);

    /// Every machine of the catalogue: all rows with their defaults, and every anchor.
    fn catalogue() -> BTreeMap<&'static str, Uses> {
        let mut wanted: Vec<SelectItem> = catalogue::all().map(|row| Instance::of(row).into()).collect();
        let anchored = catalogue::find("avwap_bands").unwrap();
        wanted
            .extend((0..=13).map(|anchor| SelectItem::from(Instance::with(anchored, &[f64::from(anchor)]))));
        let (graph, ..) = select::graph(&wanted);
        let mut found: BTreeMap<&'static str, Uses> = BTreeMap::new();
        for node in graph.nodes() {
            if let NodeOp::StateMachine { def, params, inputs } = &node.op {
                let params = params.iter().map(|p| p.get()).collect();
                found.entry(def.name).or_insert((def.outputs, vec![])).1.push((inputs.len(), params));
            }
        }
        found
    }

    #[test]
    fn every_machine_of_the_catalogue_is_in_exactly_one_table() {
        let catalogue = catalogue();
        assert!(catalogue.len() >= 36);
        for name in catalogue.keys() {
            let places = [
                MACHINES.iter().filter(|m| m.name == *name).count(),
                WINDOWED.iter().filter(|m| m.name == *name).count(),
                ROLLING.iter().filter(|(n, _)| n == name).count(),
            ];
            assert_eq!(places.iter().sum::<usize>(), 1, "{name}: {places:?}");
        }
        let rows = MACHINES.iter().map(|m| m.name).chain(WINDOWED.iter().map(|m| m.name));
        for name in rows.chain(ROLLING.map(|(name, _)| name)) {
            assert!(catalogue.contains_key(name), "{name} is not in the catalogue");
        }
    }

    #[test]
    fn jobs_fit_the_job_table_and_constants_are_finite() {
        for (name, (outputs, uses)) in catalogue() {
            let Some(machine) = of(name, &[]) else { continue };
            assert!(machine.reads.len() <= 4 && outputs <= 4 && machine.state <= 32, "{name}");
            for (inputs, params) in uses {
                assert!(machine.reads.iter().all(|at| *at < inputs), "{name}");
                assert!(machine.reads.len() == inputs || name == "hilbert mode", "{name} leaves inputs out");
                assert!((machine.constants)(&params).iter().all(|x| x.is_finite()), "{name} {params:?}");
            }
        }
    }

    #[test]
    fn every_mode_is_a_case_and_every_case_is_a_mode() {
        for mode in 0..=MACHINES.iter().map(|m| m.mode).max().unwrap() {
            assert!(MACHINES.iter().any(|m| m.mode == mode), "{mode}");
            assert_eq!(SHADER.matches(&format!("case {mode}u:")).count(), 1, "{mode}");
        }
        assert_eq!(
            SHADER.matches("case ").count() as u32,
            1 + MACHINES.iter().map(|m| m.mode).max().unwrap()
        );
    }

    #[test]
    fn shaders_are_valid() {
        for own in [SHADER, WINDOW_SHADER] {
            let text = format!("{}{own}", include_str!("../shader/common.wgsl"));
            let module = naga::front::wgsl::parse_str(&text).unwrap();
            let mut validator = naga::valid::Validator::new(
                naga::valid::ValidationFlags::all(),
                naga::valid::Capabilities::empty(),
            );
            validator.validate(&module).unwrap();
        }
    }

    #[test]
    fn filter_rows_state_their_dc_gain() {
        // b0 + b1 + b2 = gain * (1 - a1 - a2 - a3): the kernel relies on it.
        let catalogue = catalogue();
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        for (_, p) in &catalogue["linear"].1 {
            assert!((sum(&p[..3]) - p[6] * (1.0 - sum(&p[3..6]))).abs() < 1e-12, "{p:?}");
        }
        for (_, p) in &catalogue["two pole filter"].1 {
            assert_eq!(1.0 + p[1] + p[2], 0.0, "{p:?}");
        }
    }

    #[test]
    fn ratios_become_fractions() {
        assert_eq!(fraction(0.3), [3.0, 10.0]);
        assert_eq!(fraction(0.05), [1.0, 20.0]);
        assert_eq!(fraction(0.0), [0.0, 1.0]);
        assert_eq!(fraction(0.618), [309.0, 500.0]);
        assert_eq!(fraction(1.0 / PI), [(1.0 / PI) as f32, 1.0]);
        assert_eq!(zigzag(&[5.0, 2.9]), [1.0, 20.0, 2.0]);
    }

    #[test]
    fn twiddles_of_a_cycle_sum_to_zero() {
        let all = twiddles(&[]);
        assert_eq!(all.len() as u32, LONGEST * (LONGEST - 1));
        for n in 2..=LONGEST as usize {
            let of = &all[(n - 1) * (n - 2)..n * (n - 1)];
            let sum = |port: usize| of.iter().skip(port).step_by(2).map(|x| f64::from(*x)).sum::<f64>();
            assert!(sum(0).abs() < 1e-5 && (sum(1) + 1.0).abs() < 1e-5, "{n}");
        }
    }
}
