//! x
use forge_ops::*;
use forge_runtime::{engine::{Opener as _, gpu::GpuOpener}, memory::{Budget, BudgetOrigin, StackSettings}, session::Session, units::Bytes};
use std::{sync::Arc, time::{Duration, Instant}};
fn main() {
    let session = Session::new(GpuOpener::default().open().unwrap(), StackSettings::new(Budget { bytes: Bytes::gib(4), origin: BudgetOrigin::User }));
    let what = std::env::args().nth(1).unwrap();
    let sizes: Vec<usize> = std::env::args().skip(2).map(|s| s.parse().unwrap()).collect();
    let row = table::row(Kind::parse(&what).unwrap()).unwrap();
    let op = (row.example)(&sizes).unwrap();
    let e = op.effort();
    for t in [1, 2] {
        let held: Vec<_> = op.inputs().iter().map(|t| t.host().unwrap()).collect();
        let inputs: Vec<&[u8]> = held.iter().map(|h| h.as_ref()).collect();
        let mut out: Vec<Vec<u8>> = op.outputs().unwrap().iter().map(|s| vec![0; s.size().unwrap().0 as usize]).collect();
        let mut best = f64::MAX;
        for _ in 0..15 { let s = Instant::now();
            let mut o: Vec<&mut [u8]> = out.iter_mut().map(|v| v.as_mut_slice()).collect();
            op.cpu(&inputs, &mut o, Threads(t)).unwrap(); best = best.min(s.elapsed().as_secs_f64()); }
        println!("cpu {t}: {:.3} ms  {:.2} GFLOP/s {:.2} GB/s", best * 1e3, e.flops as f64 / best / 1e9, (e.read.0 + e.written.0) as f64 / best / 1e9);
    }
    for v in op.variants() {
        let mut tuning = Tuning::default(); tuning.set(op.kind(), *v);
        let target = Target { caps: session.caps(), tuning: &tuning };
        let plan = Arc::new(record::plan(op.as_ref(), &target, false).unwrap());
        let mut best = f64::MAX; let mut dev = f64::MAX;
        for _ in 0..7 { let s = Instant::now(); let d = session.run(&plan, Duration::from_secs(60)).unwrap(); best = best.min(s.elapsed().as_secs_f64());
            if let Some(t) = d.device_time { dev = dev.min(t.as_secs_f64()); } }
        println!("{v:?}: {:.3} ms (device {:.3})  {:.2} GFLOP/s {:.2} GB/s", best * 1e3, dev * 1e3, e.flops as f64 / dev / 1e9, (e.read.0 + e.written.0) as f64 / dev / 1e9);
    }
}
