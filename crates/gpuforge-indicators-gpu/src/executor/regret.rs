//! Placement regret: runs a selection on both sides and compares the chosen side's time with the faster one's.

use std::{sync::Arc, time::Instant};

use gpuforge_indicators::{
    exec::ExecOptions,
    select::{self, SelectItem, Selector},
};
use gpuforge_runtime::runner::Runner;
use serde::Serialize;

use super::{
    DeviceAccess, DeviceError, ExecRequest, HybridExecutor,
    calibrate::{self, SampleData},
};
use crate::cost_model::{self, DeviceChoice, DeviceRates, PlacementDecision};

/// The selection: about twenty indicators of all kinds.
pub const SET: &str = "rsi(14), macd, bbands, atr(14), adx(14), obv, cci(14), willr(14), stoch, mfi(14), sma(20), \
                       ema(20), wma(10), stddev(20), roc(10), mom(10), sar, aroon(14), ad, typprice";

/// Series and bars of the compared sizes.
pub const SIZES: [(usize, usize); 4] = [(1, 1_000), (30, 10_000), (500, 1_000), (2_000, 10_000)];

/// Bars held at once; larger sizes repeat the same series.
const MAX_BARS: usize = 1 << 19;

/// One size.
#[derive(Debug, Clone, Serialize)]
pub struct RegretRow {
    /// Series.
    pub series: usize,
    /// Bars of each.
    pub bars: usize,
    /// Milliseconds on the CPU.
    pub cpu_ms: f64,
    /// Milliseconds on the device, warm.
    pub gpu_ms: f64,
    /// Predicted milliseconds on the CPU.
    pub predicted_cpu_ms: f64,
    /// Predicted milliseconds on the device.
    pub predicted_gpu_ms: f64,
    /// The side that the cost model chooses.
    pub chosen: DeviceChoice,
    /// Its time over the time of the faster side.
    pub regret: f64,
}

/// Runs [`SET`] on both sides at these sizes (series, bars), on the device of `access`.
pub fn regret_on(access: &DeviceAccess, sizes: &[(usize, usize)]) -> Result<Vec<RegretRow>, DeviceError> {
    let (runner, _) = access.find().map_err(DeviceError::Unavailable)?;
    let rates = calibrate::calibrate(&runner).map_err(|e| DeviceError::Unavailable(e.to_string()))?;
    let wanted: Vec<SelectItem> = Selector::new().select(SET).unwrap_or_default();
    let selection = select::plan(&wanted);
    let request = ExecRequest { wanted: &wanted, selection: &selection };
    let per_bar = calibrate::cpu_per_bar(&selection.plan, ExecOptions::default());
    sizes.iter().map(|size| row(request, &runner, (rates, per_bar), *size)).collect()
}

fn row(
    request: ExecRequest<'_>,
    runner: &Arc<Runner>,
    (rates, per_bar): (DeviceRates, f64),
    (series, bars): (usize, usize),
) -> Result<RegretRow, DeviceError> {
    let cpu_access = DeviceAccess::cpu();
    let gpu_access = DeviceAccess::over(runner.clone(), DeviceChoice::Gpu).with_rates(rates, per_bar);
    let mut cpu = HybridExecutor::new(request, ExecOptions::default(), &cpu_access)?;
    let mut gpu = HybridExecutor::new(request, ExecOptions::default(), &gpu_access)?;
    let at_once = (MAX_BARS / bars.max(1)).clamp(1, series.max(1));
    let data = SampleData::new(at_once, bars);
    let group = data.series();
    // Warm-up: each side compiles before it is timed.
    cpu.run(&group);
    gpu.run(&group);
    let (predicted, _) = gpu.predict(&vec![bars; series]).unwrap_or_default();
    let PlacementDecision { place: chosen, .. } =
        cost_model::choose_faster(per_bar * (series * bars) as f64, &predicted, 0.0);
    let (mut cpu_ms, mut gpu_ms) = (0.0, 0.0);
    let mut left = series;
    while left > 0 {
        let now = group.get(..left.min(at_once)).unwrap_or(&group);
        // Interleaved, so that interference falls on both sides.
        let began = Instant::now();
        cpu.run(now);
        cpu_ms += began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        gpu.run(now);
        gpu_ms += began.elapsed().as_secs_f64() * 1e3;
        left -= now.len().max(1).min(left);
    }
    if let (Some(why), true) = (&gpu.disabled, gpu.summary.groups.cpu > 0) {
        return Err(DeviceError::Unavailable(why.clone()));
    }
    let took = if chosen == DeviceChoice::Gpu { gpu_ms } else { cpu_ms };
    Ok(RegretRow {
        series,
        bars,
        cpu_ms,
        gpu_ms,
        predicted_cpu_ms: per_bar * (series * bars) as f64 * 1e3,
        predicted_gpu_ms: predicted.total() * 1e3,
        chosen,
        regret: took / cpu_ms.min(gpu_ms).max(1e-9),
    })
}
