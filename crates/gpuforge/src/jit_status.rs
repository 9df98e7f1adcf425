//! JIT status: compiles the plan of `set:classic111` and runs it beside the kernels, so that `gpuforge status` can say whether the
//! JIT works in this process, and why not.

use gpuforge_frame::sample::{Interval, Sample};
use gpuforge_indicators::{
    exec::{self, ExecOptions, JitSwitch, Series},
    select::{self, SelectError, Selector},
};
use serde::Serialize;

/// What is compiled.
const SELECTION: &str = "set:classic111";
/// Series of the run: enough for SIMD across series.
const SERIES: usize = 8;
/// Bars of the run: beyond every warm-up of the selection, so that the fused loops run.
const BARS: usize = 1024;

/// What the JIT makes of the indicators of `set:classic111` on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JitStatus {
    /// `GPUFORGE_JIT`: `off`, `on` or `require`.
    pub switch: &'static str,
    /// SIMD level of the kernels.
    pub simd: String,
    /// The selection that was compiled.
    pub selection: &'static str,
    /// Fused loops with machine code, of one series and of eight at a time.
    pub loops: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Time of compilation.
    pub compile_ms: f64,
    /// Plans that fell back to the kernels: a rejected compilation, or results that differ from the kernels'.
    pub fallbacks: u64,
    /// Why something was not compiled, or fell back.
    pub reasons: Vec<String>,
}

impl JitStatus {
    /// Compiles and runs. Loads no driver; takes some milliseconds.
    ///
    /// # Errors
    /// The catalogue does not have the selection.
    pub fn probe() -> Result<JitStatus, SelectError> {
        let plan = select::plan(&Selector::new().select(SELECTION)?).plan;
        let bars: Vec<_> = Sample::new(SERIES, Interval::Day, BARS, 1).series().collect();
        let time: Vec<f64> = (0..BARS).map(|day| day as f64 * 86_400.0).collect();
        let series: Vec<Series<'_>> = bars
            .iter()
            .map(|b| Series {
                open: &b.open,
                high: &b.high,
                low: &b.low,
                close: &b.close,
                volume: &b.volume,
                time: &time,
            })
            .collect();
        let options = ExecOptions::with_threads(1);
        // Batched, then one series: two programs.
        exec::run(&plan, &series, ExecOptions { batched: Some(true), ..options });
        if let Some(one) = series.get(..1) {
            exec::run(&plan, one, options);
        }
        let (stats, fallbacks) = (plan.jit_stats(), exec::jit_fallbacks());
        let mut reasons = stats.reasons;
        reasons.extend(fallbacks.reasons);
        Ok(JitStatus {
            switch: match JitSwitch::from_env() {
                JitSwitch::Off => "off",
                JitSwitch::On => "on",
                JitSwitch::Require => "require",
            },
            simd: options.simd.name().to_owned(),
            selection: SELECTION,
            loops: stats.loops,
            code_bytes: stats.code_bytes,
            compile_ms: stats.compile_time.as_secs_f64() * 1e3,
            fallbacks: fallbacks.count,
            reasons,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn loops_are_compiled_where_the_cpu_has_a_backend() {
        let status = JitStatus::probe().unwrap();
        let backend = status.simd != "scalar" && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        if backend && status.switch != "off" {
            assert!(status.loops > 0 && status.code_bytes > 0, "{status:?}");
        }
        assert_eq!(status.fallbacks, 0, "{status:?}");
    }
}
