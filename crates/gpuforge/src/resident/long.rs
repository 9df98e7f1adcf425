//! A series whose results do not fit into memory, on a device: column after column into a scratch file.
//!
//! ```text
//!   device: columns that suit it, batch by batch ──┐
//!   processor, at the same time: the others ───────┴──► scratch file [column][bar]
//! ```
//! Whatever fails leaves nothing behind, and the processor computes the series in parts instead.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use gpuforge_frame::FrameError;
use gpuforge_indicators::{
    exec::{self, How, Series},
    graph::Val,
    plan::Plan,
};
use gpuforge_indicators_gpu::{
    cost::{Decision, Prediction, Reason},
    run::Sink,
};

use super::{Computer, Counts, Device, Parts, is_finite, load};
use crate::market::Scratch;

/// Columns of one series on their way to the scratch file.
struct Into<'a> {
    scratch: &'a Scratch,
    room: Vec<f64>,
    failed: &'a Mutex<Option<FrameError>>,
}

impl Sink for Into<'_> {
    fn take(&mut self, _: usize, wanted: usize, bars: usize, fill: &mut dyn FnMut(&mut [f64])) {
        self.room.resize(bars, 0.0);
        fill(&mut self.room);
        keep(self.failed, self.scratch.write(wanted * bars, &self.room));
    }
}

/// Remembers the first failure.
fn keep(failed: &Mutex<Option<FrameError>>, written: Result<(), FrameError>) {
    if let Err(error) = written {
        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

impl Computer<'_> {
    /// Computes a series on a device into `scratch`, where the decision is for it; `false` leaves it to the processor.
    /// `most` bytes of results are held at once.
    pub(crate) fn run_long(&mut self, one: Series<'_>, most: usize, scratch: &mut Option<Scratch>) -> bool {
        let bars = one.len(&self.request.selection.plan);
        let (mut decision, prediction) = self.decide(&[bars]);
        if decision.place == Device::Gpu {
            let done = self.try_long(one, bars, most, scratch, (&decision, prediction));
            match done {
                Ok(()) => {
                    self.done.decision = Some(decision);
                    return true;
                }
                Err(instead) => decision = instead,
            }
        }
        self.done.decision = Some(decision);
        false
    }

    fn try_long(
        &mut self,
        one: Series<'_>,
        bars: usize,
        most: usize,
        scratch: &mut Option<Scratch>,
        (decision, prediction): (&Decision, Option<Prediction>),
    ) -> Result<(), Decision> {
        let here = |why: String| Decision::cpu(Reason::NoDevice(why));
        if scratch.is_none() {
            *scratch = Some(Scratch::new().map_err(|e| self.without_scratch(&e))?);
        }
        let Some(room) = scratch.as_ref() else { return Err(here("no scratch file".to_owned())) };
        let values = bars.saturating_mul(self.request.selection.columns.len());
        if let (Reason::Faster(_), Some(prediction), Some(cpu)) =
            (&decision.reason, prediction, self.on_processor(bars))
        {
            // The processor needs no scratch file.
            let there = prediction.each() + room.seconds(values);
            if there >= cpu {
                return Err(Decision::cpu(Reason::Faster(there / cpu.max(1e-9))));
            }
        }
        if !is_finite(&one, &self.request.selection.plan) {
            return Err(here("the series has values that are no numbers".to_owned()));
        }
        let began = Instant::now();
        self.compute_long(one, bars, most, room)?;
        self.took_there(prediction, began.elapsed().as_secs_f64());
        Ok(())
    }

    /// A disk that is full costs speed, not the result.
    fn without_scratch(&mut self, error: &FrameError) -> Decision {
        let why = error.to_string();
        self.fail(why.clone());
        Decision::cpu(Reason::NoDevice(why))
    }

    fn compute_long(
        &mut self,
        one: Series<'_>,
        bars: usize,
        most: usize,
        scratch: &Scratch,
    ) -> Result<(), Decision> {
        let here = |why: &str| Decision::cpu(Reason::NoDevice(why.to_owned()));
        if let Err(why) = self.open() {
            self.fail(why.clone());
            return Err(here(&why));
        }
        let load = self.load(&[bars]);
        let how = self.how;
        let (Some(parts), Some(opened), Some((_, resident))) = (&self.parts, &self.opened, &self.resident)
        else {
            self.fail("the graph cannot be lowered".to_owned());
            return Err(here("the graph cannot be lowered"));
        };
        let failed = Mutex::new(None);
        let result = std::thread::scope(|scope| {
            let device = scope.spawn(|| {
                let mut sink = Into { scratch, room: Vec::new(), failed: &failed };
                resident.run_with(&opened.runner, &[one], &mut sink)
            });
            beside(parts, one, bars, (most, how), scratch, &failed);
            device.join()
        });
        let kernels: Vec<u64> = resident.programs().flat_map(|p| load::kernels(&p.lowered)).collect();
        let on_it = parts.on.iter().filter(|on| **on).count() as u64;
        let columns = Counts { gpu: on_it, cpu: parts.on.len() as u64 - on_it };
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(self.without_scratch(&error));
        }
        match result {
            Ok(Ok(stats)) => {
                self.compiled.extend(kernels);
                self.count(&stats, load, columns, Counts { gpu: 1, cpu: 0 });
                Ok(())
            }
            Ok(Err(error)) => {
                self.note(&error);
                self.fail(error.to_string());
                Err(here(&error.to_string()))
            }
            Err(_) => {
                self.fail("the thread of the device ended early".to_owned());
                Err(here("the thread of the device ended early"))
            }
        }
    }
}

/// Columns that suit no device, as many at once as fit.
fn beside(
    parts: &Parts,
    one: Series<'_>,
    bars: usize,
    (most, how): (usize, How),
    scratch: &Scratch,
    failed: &Mutex<Option<FrameError>>,
) {
    let Some((_, places)) = &parts.rest else { return };
    let together = (most / bars.saturating_mul(8).max(1)).max(1);
    for places in places.chunks(together) {
        let values: Vec<Val> = places.iter().filter_map(|at| parts.values.get(*at).copied()).collect();
        let columns = exec::run(&Plan::new(&parts.graph, &values), &[one], how).pop().unwrap_or_default();
        for (at, column) in places.iter().zip(&columns) {
            keep(failed, scratch.write(at * bars, column));
        }
    }
}
