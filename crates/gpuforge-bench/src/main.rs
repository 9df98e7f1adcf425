//! Benchmarks of gpuforge beside peers, interleaved in one process: prints one JSON row per case; run by `cargo xtask bench`.
//!
//! A benchmark is a row of `BENCHES` and a file. Sides are measured in interleaved rounds, the first of which is warm-up; a row
//! has the medians, their ratio and the noise (relative interquartile range). Case names are ids in BENCHMARKS.md.
//!
//! | file | what is measured |
//! |---|---|
//! | `row.rs`, `measure.rs` | rows; median, noise, timer |
//! | `detect.rs`, `forge.rs`, `first_result.rs` | detection; runtime start-up; first kernel (`bare_wgpu_*.rs`, `ours_first_result.rs`: peers) |
//! | `transfer.rs`, `elementwise.rs`, `matmul.rs`, `pool.rs` | transfers, memory bandwidth, matrix products, buffer pool |
//! | `batch.rs`, `regret.rs` | batching; placement decisions against the best backend |
//! | `indicators.rs`, `vector_ta.rs`, `indicators_gpu.rs`, `cluster.rs` | indicators on CPU, GPU and cluster |
//! | `lattice.rs`, `trajectory.rs`, `train.rs`, `explain.rs` | workloads, training, log explanation |
//! | `span.rs`, `monitor.rs` | overhead of profiling and monitoring |
//! | `soak.rs` | soak test |
#![allow(clippy::print_stderr, reason = "a binary: printing is its job")]

use std::{io::Write as _, process::ExitCode};

mod batch;
#[cfg(feature = "cluster")]
mod cluster;
mod detect;
mod elementwise;
mod explain;
mod first_result;
mod forge;
mod indicators;
mod indicators_gpu;
mod lattice;
mod lattice_peers;
mod matmul;
mod measure;
#[cfg(unix)]
mod monitor;
mod pool;
mod regret;
mod row;
mod soak;
mod span;
#[cfg(feature = "train")]
mod train;
mod trajectory;
mod transfer;
#[cfg(feature = "vector-ta")]
mod vector_ta;

use row::Row;

/// A benchmark.
struct Bench {
    name: &'static str,
    what: &'static str,
    run: fn() -> anyhow::Result<Vec<Row>>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "detect",
        what: "cached and cold detection, beside a bare wgpu program that lists adapters",
        run: detect::run,
    },
    Bench { name: "forge", what: "construction of a runtime that has loaded nothing", run: forge::run },
    Bench {
        name: "first-result",
        what: "first result of a small kernel, beside a bare wgpu program",
        run: first_result::run,
    },
    Bench {
        name: "transfer",
        what: "upload and download, beside memcpy and a device copy",
        run: transfer::run,
    },
    Bench {
        name: "elementwise",
        what: "element-wise expressions, beside memcpy and the device's best copy kernel",
        run: elementwise::run,
    },
    Bench {
        name: "batch",
        what: "batches of small operations, beside one by one; duty cycle limit",
        run: batch::run,
    },
    Bench {
        name: "regret",
        what: "regret of placement decisions, beside the best backend of every operation and size",
        run: regret::run,
    },
    Bench {
        name: "lattice",
        what: "paths, distances and analyses of lattices, beside petgraph and python-igraph",
        run: lattice::run,
    },
    Bench { name: "matmul", what: "matrix products on the CPU, beside NumPy", run: matmul::run },
    Bench {
        name: "indicators",
        what: "indicators over many series and one long one, beside TA-Lib",
        run: indicators::run,
    },
    Bench {
        name: "indicators-gpu",
        what: "indicators on the adapter, beside its best copy kernel; fused beside unfused",
        run: indicators_gpu::run,
    },
    #[cfg(feature = "cluster")]
    Bench {
        name: "cluster",
        what: "indicators with DataFusion and Ballista, beside the local engine; SMA beside DataFusion's own window",
        run: cluster::run,
    },
    Bench {
        name: "trajectory",
        what: "ball flights: 1, a thousand, a million, beside a plain loop and SciPy; the router's choices",
        run: trajectory::run,
    },
    Bench { name: "span", what: "profiling spans on and off, beside tracing and puffin", run: span::run },
    #[cfg(feature = "train")]
    Bench { name: "train", what: "training steps on the CPU, beside JAX and PyTorch", run: train::run },
    #[cfg(unix)]
    Bench {
        name: "monitor",
        what: "instructions of a monitored process, beside one that is not",
        run: monitor::run_bench,
    },
    Bench { name: "explain", what: "explanation of 10 MB logs of several kinds", run: explain::run },
    Bench { name: "pool", what: "buffer pool: hit latency, reuse, waste", run: pool::run },
];

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let [command, minutes] = names.as_slice()
        && command == "soak"
    {
        return soak::main(minutes);
    }
    #[cfg(feature = "cluster")]
    if let Some((first, rest)) = names.split_first()
        && first == cluster::PROCESS
    {
        return cluster::process(rest);
    }
    #[cfg(unix)]
    if names == [monitor::WORK] {
        return match monitor::work_main() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}: {error:#}", monitor::WORK);
                ExitCode::FAILURE
            }
        };
    }
    let mut out = std::io::stdout().lock();
    if names.iter().any(|n| n == "--list") {
        for bench in BENCHES {
            let _ = writeln!(out, "{}", bench.name);
            eprintln!("{:<10} {}", bench.name, bench.what);
        }
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    if let Some(unknown) = names.iter().find(|n| BENCHES.iter().all(|b| b.name != n.as_str())) {
        eprintln!("error: there is no benchmark {unknown:?}\nhint: gpuforge-bench --list");
        return ExitCode::from(2);
    }
    for bench in BENCHES.iter().filter(|b| names.is_empty() || names.iter().any(|n| n == b.name)) {
        match (bench.run)() {
            Ok(rows) => {
                for row in rows {
                    match serde_json::to_string(&row) {
                        Ok(line) => drop(writeln!(out, "{line}")),
                        Err(error) => eprintln!("error: {}: {error}", bench.name),
                    }
                }
            }
            Err(error) => {
                eprintln!("error: {}: {error:#}", bench.name);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
