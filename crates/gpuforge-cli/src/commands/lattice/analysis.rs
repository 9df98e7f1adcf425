//! `gpuforge lattice analyse`: connectivity, centrality and communities of one lattice, or of many in one batch.

use anyhow::{Context as _, Result};
use gpuforge::{
    Forge,
    workloads::lattice::{
        Analysis, Csr, Grid, Lattice as Cells, LatticeError, analyse, batch,
        centrality::{Centrality, centrality},
        community::{Communities, communities},
    },
};
use serde::Serialize;

use super::{blocked, grid, lattice_error, statistics};
use crate::{
    args::lattice::AnalyseArgs,
    commands::probe,
    context::{Context, env},
    format::{width, wrap},
    output::HEAD,
};

/// Cells listed per centrality measure.
const NAMED: usize = 3;

/// JSON document.
#[derive(Serialize)]
struct Document {
    dims: usize,
    #[serde(flatten)]
    analysis: Analysis,
    #[serde(skip_serializing_if = "Option::is_none")]
    centrality: Option<Centrality>,
    #[serde(skip_serializing_if = "Option::is_none")]
    communities: Option<Communities>,
}

pub(super) fn run(args: &AnalyseArgs, context: &Context) -> Result<()> {
    let grid = grid(args.shape.dims, &args.shape.size)?;
    if let Some(count) = args.lattices {
        return run_batch(args, &grid, count, context);
    }
    let lattice = lattice(args, &grid, args.blocked.seed)?;
    let analysis = analyse(&lattice).map_err(lattice_error)?;
    let graph = match args.centrality || args.communities {
        true => Some(Csr::build(&lattice).map_err(lattice_error)?),
        false => None,
    };
    let central = graph.as_ref().filter(|_| args.centrality).map(centrality);
    let communities = graph.as_ref().filter(|_| args.communities).map(|g| communities(g, args.blocked.seed));
    let document = Document {
        dims: grid.dims(),
        analysis,
        centrality: central.transpose().map_err(lattice_error)?,
        communities: communities.transpose().map_err(lattice_error)?,
    };
    if context.out.json {
        return context.out.json(&document);
    }
    let mut out = statistics(&document.analysis);
    if let Some(c) = &document.centrality {
        for (name, values) in
            [("degree", &c.degree), ("closeness", &c.closeness), ("betweenness", &c.betweenness)]
        {
            out.push_str(&wrap(&format!("{name}: {}", largest(values)), 2, width()));
        }
    }
    if let Some(c) = &document.communities {
        let modularity = c.modularity.map_or_else(|| "none".to_owned(), |m| format!("{m:.4}"));
        out.push_str(&format!("  communities: {}, modularity {modularity}\n", c.count));
    }
    context.out.text(&out)
}

fn lattice(args: &AnalyseArgs, grid: &Grid, seed: u64) -> Result<Cells> {
    let lattice = Cells::new(grid.clone());
    match blocked(grid, &args.blocked, seed, &[])? {
        Some(blocked) => lattice.block(blocked).map_err(lattice_error),
        None => Ok(lattice),
    }
}

/// The cells with the largest values; ties by cell index.
fn largest(values: &[f64]) -> String {
    let mut cells: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    cells.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let parts: Vec<String> = cells.iter().take(NAMED).map(|(c, v)| format!("cell {c} {v:.6}")).collect();
    parts.join(", ")
}

/// Analyses lattices of consecutive seeds in one batch.
fn run_batch(args: &AnalyseArgs, grid: &Grid, count: u64, context: &Context) -> Result<()> {
    let seeds = (0..count).map(|i| args.blocked.seed.wrapping_add(i));
    let lattices = seeds.map(|seed| lattice(args, grid, seed)).collect::<Result<Vec<_>>>()?;
    let places = context.places()?;
    let settings = context.settings(&places, &[]);
    let forge = Forge::with_isolation(settings, &places, &env, probe::isolation());
    let (items, pending) = batch::analyses(lattices);
    let run = forge.batch(items)?;
    let results = pending.results().into_iter().collect::<Option<Result<Vec<Analysis>, LatticeError>>>();
    let all = results.context("the batch did not finish")?.map_err(lattice_error)?;
    if context.out.json {
        let seconds = run.stats.wall.as_secs_f64();
        return context
            .out
            .json(&serde_json::json!({ "dims": grid.dims(), "seconds": seconds, "lattices": all }));
    }
    let connected = all.iter().filter(|a| a.connected).count();
    let mut widths: Vec<u64> = all.iter().filter_map(|a| a.diameter.map(|d| d.lower)).collect();
    widths.sort_unstable();
    let (least, most) = (widths.first().copied().unwrap_or(0), widths.last().copied().unwrap_or(0));
    let middle = widths.get(widths.len() / 2).copied().unwrap_or(0);
    let mut out = format!("{HEAD}{count} lattices of {} cells{HEAD:#}\n", grid.vertices());
    out.push_str(&format!(
        "  connected  {connected}\n  diameter   {least} … {middle} … {most} (min, median, max)\n"
    ));
    context.out.text(&out)
}
