//! How good are the decisions? Both sides really run, and what was chosen beside what was faster.

use std::{sync::Arc, time::Instant};

use gpuforge_indicators::{exec::How, select::Selector};
use gpuforge_runtime::runner::Runner;
use serde::Serialize;

use super::{
    Access, Computer, Device, DeviceError,
    cost::{self, Decision},
    measure::{self, Data},
};
use crate::{
    Forge,
    market::Request,
    settings::{Places, Settings},
};

/// What is computed: about twenty indicators of all kinds.
pub const SET: &str = "rsi(14), macd, bbands, atr(14), adx(14), obv, cci(14), willr(14), stoch, mfi(14), sma(20), \
                       ema(20), wma(10), stddev(20), roc(10), mom(10), sar, aroon(14), ad, typprice";

/// Series and bars at which decisions are looked at.
pub const SIZES: [(usize, usize); 4] = [(1, 1_000), (30, 10_000), (500, 1_000), (2_000, 10_000)];

/// Bars of different series that are held at once; further ones are the same again.
const MOST_BARS: usize = 1 << 19;

/// One size.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Series.
    pub series: usize,
    /// Bars of each.
    pub bars: usize,
    /// Milliseconds of the processor.
    pub cpu_ms: f64,
    /// Milliseconds of the device, open and with everything compiled.
    pub gpu_ms: f64,
    /// What was predicted for each.
    pub predicted_cpu_ms: f64,
    /// What was predicted for the device.
    pub predicted_gpu_ms: f64,
    /// What would be chosen.
    pub chosen: Device,
    /// Time of that over the time of the faster side.
    pub regret: f64,
}

/// Runs [`SET`] on both sides at these sizes, on the device that this machine would use.
pub fn regret(sizes: &[(usize, usize)]) -> Result<Vec<Row>, DeviceError> {
    let env = |name: &str| std::env::var(name).ok();
    let places = Places::of(&env).unwrap_or_else(|_| Places::nowhere());
    let settings = Settings::load_lenient(&places, &env, &[]);
    regret_on(&Access::of(&Forge::new(), &settings, &places, Device::Gpu), sizes)
}

/// As [`regret`], on a device of one's own.
pub fn regret_on(access: &Access, sizes: &[(usize, usize)]) -> Result<Vec<Row>, DeviceError> {
    let (runner, _) = access.find().map_err(DeviceError::None)?;
    let rates = measure::measure(&runner).map_err(|e| DeviceError::None(e.to_string()))?;
    let request = Request::of(&Selector::new().select(SET).unwrap_or_default());
    let per_bar = measure::processor(&request.selection.plan, How::default());
    sizes.iter().map(|size| row(&request, &runner, (rates, per_bar), *size)).collect()
}

fn row(
    request: &Request,
    runner: &Arc<Runner>,
    (rates, per_bar): (cost::Rates, f64),
    (series, bars): (usize, usize),
) -> Result<Row, DeviceError> {
    let here = Access::cpu();
    let there = Access::over(runner.clone(), Device::Gpu).at(rates, per_bar);
    let mut cpu = Computer::new(request, How::default(), &here)?;
    let mut gpu = Computer::new(request, How::default(), &there)?;
    let at_once = (MOST_BARS / bars.max(1)).clamp(1, series.max(1));
    let data = Data::new(at_once, bars);
    let group = data.series();
    // Each side compiles before it is timed.
    cpu.run(&group);
    gpu.run(&group);
    let (predicted, _) = gpu.predict(&vec![bars; series]).unwrap_or_default();
    let Decision { place: chosen, .. } = cost::faster(per_bar * (series * bars) as f64, &predicted, 0.0);
    let (mut cpu_ms, mut gpu_ms) = (0.0, 0.0);
    let mut left = series;
    while left > 0 {
        let now = group.get(..left.min(at_once)).unwrap_or(&group);
        // By turns, so that what else the machine does falls on both.
        let began = Instant::now();
        cpu.run(now);
        cpu_ms += began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        gpu.run(now);
        gpu_ms += began.elapsed().as_secs_f64() * 1e3;
        left -= now.len().max(1).min(left);
    }
    if let (Some(why), true) = (&gpu.gone, gpu.done.groups.cpu > 0) {
        return Err(DeviceError::None(why.clone()));
    }
    let took = if chosen == Device::Gpu { gpu_ms } else { cpu_ms };
    Ok(Row {
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
