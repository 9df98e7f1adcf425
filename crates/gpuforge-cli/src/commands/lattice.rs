//! `gpuforge lattice`: statistics, shortest paths and XOR of d-dimensional lattices.

mod analysis;

use std::{
    fs,
    io::Read as _,
    path::{Path as FilePath, PathBuf},
};

use anyhow::{Context as _, Result};
use gpuforge::workloads::lattice::{
    Analysis, Blocked, Grid, Lattice as Cells, LatticeError, LatticePath, PathCount, SearchResult, Searcher,
    Weights, analyse, analyse::Origin, count_paths, parse_cell, parse_cells, svg::svg, xor_transform,
};
use serde_json::json;

use crate::{
    args::lattice::{BlockedArgs, Lattice, PathArgs, ShapeArgs, XorArgs},
    atomic_file,
    context::Context,
    error::Hinted,
    format::{width, wrap},
    output::HEAD,
};

/// Cells of a path that are printed; `--json` has them all.
const SHOWN: usize = 12;

pub(crate) fn run(args: &Lattice, context: &Context) -> Result<()> {
    match args {
        Lattice::Info(shape) => info(shape, context),
        Lattice::Path(args) => path(args, context),
        Lattice::Xor(args) => xor(args, context),
        Lattice::Analyse(args) => analysis::run(args, context),
    }
}

/// A lattice error with its hint; wrong usage has exit code 2.
pub(super) fn lattice_error(error: LatticeError) -> anyhow::Error {
    use LatticeError as E;
    let (usage, hint) = match &error {
        E::Dims(_) | E::Empty { .. } | E::Overflow { .. } => (true, "for example --dims 4 --size 10"),
        E::Outside { .. } | E::Coordinates { .. } | E::Cell { .. } => {
            (true, "cells and coordinates are counted from 0, in row-major order")
        }
        E::Share(_) => (true, "for example --blocked 0.2"),
        E::WeightRange { .. } => (true, "for example --random-weights 1,10"),
        E::NotFlat { .. } => (true, "leave --svg out"),
        E::BlockedEnd { .. } => {
            (false, "--from and --to name the ends; --blocked leaves them open by itself")
        }
        E::Weight { .. } | E::WeightText { .. } | E::Length { .. } => {
            (false, "the file of --weights has one number per cell, in the order of cells")
        }
        E::TooLarge { .. } => (false, "`gpuforge lattice info` answers for any size"),
        E::Op(_) => (false, "--key takes 1 byte to 1 MiB in hexadecimal, such as 00ff3a"),
        _ => (false, "`gpuforge lattice --help` has examples"),
    };
    let text = error.to_string();
    if usage { Hinted::usage(text, hint).into() } else { Hinted::new(text, hint).into() }
}

/// The grid of `--dims` and `--size`.
pub(super) fn grid(dims: Option<usize>, sizes: &[u64]) -> Result<Grid> {
    let made = match (dims, sizes) {
        (Some(dims), [size]) => Grid::new(dims, *size),
        (Some(dims), several) if dims != several.len() => {
            let what = format!("--dims {dims} with {} sizes", several.len());
            return Err(Hinted::usage(what, "give one size for all axes, or one for each").into());
        }
        (_, sizes) => Grid::rectangular(sizes),
    };
    made.map_err(lattice_error)
}

/// The blocked cells; those of `keep` stay open.
pub(super) fn blocked(grid: &Grid, args: &BlockedArgs, seed: u64, keep: &[u64]) -> Result<Option<Blocked>> {
    let mut blocked = match args.blocked {
        Some(chance) => Some(Blocked::random(grid, chance, seed, keep).map_err(lattice_error)?),
        None => None,
    };
    let mut texts = args.block.clone();
    texts.extend(args.blocked_file.as_deref().map(read).transpose()?);
    for text in texts {
        let cells = parse_cells(grid, &text).map_err(lattice_error)?;
        let all = match blocked.take() {
            Some(mut all) => all.add(&cells).map(|()| all),
            None => Blocked::list(grid, &cells),
        };
        blocked = Some(all.map_err(lattice_error)?);
    }
    Ok(blocked)
}

fn read(path: &FilePath) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Statistics as text.
pub(super) fn statistics(analysis: &Analysis) -> String {
    let Analysis { sizes, vertices, edges, blocked, components, degrees, .. } = analysis;
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let name = sizes.join(" x ");
    let mut lines = vec![format!("cells        {vertices}")];
    if *blocked > 0 {
        lines.push(format!("blocked      {blocked}"));
    }
    lines.push(format!("edges        {edges}"));
    let known = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| format!("{v:.6}"));
    lines.push(format!("mean degree  {}", known(analysis.mean_degree)));
    let parts: Vec<String> =
        (0..).zip(degrees).filter(|(_, n)| **n > 0).map(|(d, n)| format!("{d}: {n}")).collect();
    lines.push(format!("degrees      {}", parts.join(", ")));
    lines.push(match analysis.diameter {
        None => "diameter     none".to_owned(),
        Some(d) if d.exact => format!("diameter     {}", d.lower),
        Some(d) => format!("diameter     between {} and {}", d.lower, d.upper),
    });
    lines.push(match (analysis.connected, *components) {
        (true, _) => "connected    yes".to_owned(),
        (false, n) => {
            format!("connected    no: {n} components, the largest of {}", analysis.largest_component)
        }
    });
    lines.push(format!("clustering   {}", analysis.clustering));
    lines.push(format!(
        "density      {}",
        analysis.density.map_or_else(|| "none".to_owned(), |d| format!("{d:.3e}"))
    ));
    let origin = match analysis.origin {
        Origin::ClosedForm => "closed form",
        Origin::Computed => "computed",
    };
    format!("{HEAD}lattice {name}{HEAD:#} ({origin})\n  {}\n", lines.join("\n  "))
}

fn info(shape: &ShapeArgs, context: &Context) -> Result<()> {
    let grid = grid(shape.dims, &shape.size)?;
    let dims = grid.dims();
    let analysis = analyse(&Cells::new(grid)).map_err(lattice_error)?;
    if context.out.json {
        let mut value = serde_json::to_value(&analysis)?;
        if let Some(map) = value.as_object_mut() {
            map.insert("dims".to_owned(), json!(dims));
        }
        return context.out.json(&value);
    }
    context.out.text(&statistics(&analysis))
}

/// The costs of `--weights` or `--random-weights`.
fn weights(grid: &Grid, args: &PathArgs) -> Result<Option<Weights>> {
    let made = match (&args.weights, args.random_weights.as_deref()) {
        (Some(file), _) => Weights::parse(grid, &read(file)?),
        (None, Some([low, high])) => Weights::random(grid, *low, *high, args.blocked.seed),
        (None, Some(_)) => {
            return Err(Hinted::usage(
                "--random-weights takes two numbers",
                "for example --random-weights 1,10",
            )
            .into());
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(made.map_err(lattice_error)?))
}

fn path(args: &PathArgs, context: &Context) -> Result<()> {
    let grid = grid(args.shape.dims, &args.shape.size)?;
    let from = parse_cell(&grid, &args.from).map_err(lattice_error)?;
    let to = match &args.to {
        Some(text) => parse_cell(&grid, text).map_err(lattice_error)?,
        None => grid.vertices() - 1,
    };
    let mut lattice = Cells::new(grid.clone());
    if let Some(blocked) = blocked(&grid, &args.blocked, args.blocked.seed, &[from, to])? {
        lattice = lattice.block(blocked).map_err(lattice_error)?;
    }
    if let Some(weights) = weights(&grid, args)? {
        lattice = lattice.weigh(weights).map_err(lattice_error)?;
    }
    let route = Searcher::new().path(&lattice, from, to).map_err(lattice_error)?;
    let count = match args.count {
        true => Some(count_paths(&lattice, from, to).map_err(lattice_error)?),
        false => None,
    };
    if let Some(file) = &args.svg {
        let cells = route.path().map(|p| p.cells.as_slice()).unwrap_or_default();
        atomic_file::write(file, svg(&lattice, cells).map_err(lattice_error)?.as_bytes())?;
    }
    print_path(&grid, (from, to), &route, count, args.svg.as_ref(), context)?;
    match route {
        SearchResult::Found(_) => Ok(()),
        SearchResult::NoPath(_) => {
            let what = format!("there is no path from cell {from} to cell {to}");
            Err(Hinted::new(what, "`gpuforge lattice analyse` shows the connected components").into())
        }
    }
}

fn print_path(
    grid: &Grid,
    (from, to): (u64, u64),
    route: &SearchResult,
    count: Option<PathCount>,
    svg: Option<&PathBuf>,
    context: &Context,
) -> Result<()> {
    if context.out.json {
        let (method, expanded) = match route {
            SearchResult::Found(path) => (path.method, path.expanded),
            SearchResult::NoPath(none) => (none.method, none.expanded),
        };
        let path = route.path();
        // A count may exceed the integers of JSON readers.
        let count = count.map(|c| json!({ "exact": c.exact.map(|n| n.to_string()), "ln": c.ln }));
        return context.out.json(&json!({
            "found": path.is_some(), "from": from, "to": to, "cost": path.map(|p| p.cost),
            "vertices": path.map(|p| p.cells.len()), "path": path.map(|p| &p.cells),
            "method": method.name(), "expanded": expanded, "shortest_paths": count, "svg": svg,
        }));
    }
    let Some(path) = route.path() else { return Ok(()) };
    let mut out = format!(
        "{HEAD}{} cells, cost {}{HEAD:#} ({}, {} cells expanded)\n",
        path.cells.len(),
        path.cost,
        path.method.name(),
        path.expanded
    );
    out.push_str(&wrap(&steps(grid, path)?, 2, width()));
    if let Some(count) = count {
        let ln = count.ln.unwrap_or(f64::NEG_INFINITY);
        let many = count
            .exact
            .map_or_else(|| format!("about 10^{:.1}", ln / std::f64::consts::LN_10), |n| n.to_string());
        out.push_str(&format!("  shortest paths: {many}\n"));
    }
    if let Some(file) = svg {
        out.push_str(&format!("  plotted: {}\n", file.display()));
    }
    context.out.text(&out)
}

/// The first and last cells of a path, with their coordinates.
fn steps(grid: &Grid, path: &LatticePath) -> Result<String> {
    let n = path.cells.len();
    let near_end = |i: usize| i < SHOWN / 2 || i + SHOWN / 2 >= n;
    let mut parts = Vec::new();
    for (i, cell) in path.cells.iter().enumerate() {
        if near_end(i) {
            let at = grid.coordinates(*cell).map_err(lattice_error)?;
            let at: Vec<String> = at.iter().map(u64::to_string).collect();
            parts.push(format!("({})", at.join(",")));
        } else if i == SHOWN / 2 {
            parts.push("…".to_owned());
        }
    }
    Ok(parts.join(" "))
}

fn xor(args: &XorArgs, context: &Context) -> Result<()> {
    let data = match (&args.text, &args.file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) if file != FilePath::new("-") => {
            fs::read(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        _ => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("cannot read the standard input")?;
            bytes
        }
    };
    if !args.size.is_empty() {
        let cells = grid(args.dims, &args.size)?.vertices();
        if cells != data.len() as u64 {
            let what = format!("{} bytes for {cells} cells: there must be one per cell", data.len());
            return Err(Hinted::new(what, "leave --dims and --size out for bytes of any length").into());
        }
    }
    let key = args.key.as_deref().map(unhex).transpose()?;
    let (out, key) = xor_transform(&data, key.as_deref()).map_err(lattice_error)?;
    if let Some(file) = &args.output {
        atomic_file::write(file, &out)?;
    }
    if context.out.json {
        let data = args.output.is_none().then(|| hex(&out));
        return context
            .out
            .json(&json!({ "bytes": out.len(), "data": data, "key": hex(&key), "output": args.output }));
    }
    let data = match &args.output {
        Some(file) => format!("{} bytes in {}", out.len(), file.display()),
        None => hex(&out),
    };
    context.out.text(&format!("data  {data}\nkey   {}\n", hex(&key)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let wrong = || {
        Hinted::usage(format!("{text:.40?} is no key"), "give pairs of hexadecimal digits, such as 00ff3a")
    };
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>().ok_or_else(wrong)?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return Err(wrong().into());
    }
    Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}
