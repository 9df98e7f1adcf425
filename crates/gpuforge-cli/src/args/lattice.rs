//! Arguments of `gpuforge lattice`: info, path, xor, analyse.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Lattice {
    /// Statistics of a lattice: cells, edges, degrees, diameter; in closed form, for any size.
    Info(ShapeArgs),
    /// Find a shortest path between two cells, around blocked ones and by weights.
    Path(PathArgs),
    /// XOR bytes with a key, which is printed; the same key restores them.
    Xor(XorArgs),
    /// Connectivity of a lattice with blocked cells: components, diameter, degrees.
    Analyse(AnalyseArgs),
}

const EXAMPLES: &str = "\
Examples:
  gpuforge lattice info --dims 4 --size 10
  gpuforge lattice path --dims 2 --size 40 --blocked 0.3 --seed 7 --svg path.svg
  gpuforge lattice path --size 8,8,5 --from 0,0,0 --to 7,7,4 --block '3,3,2 4,4,2'
  gpuforge lattice analyse --dims 3 --size 12 --blocked 0.2 --lattices 100 --json
  gpuforge lattice xor --text hello

A cell is its index (17) or its coordinates (1,7), row-major.";

/// Dimensions of a lattice.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ShapeArgs {
    /// Number of dimensions [default: as many as there are sizes].
    #[arg(long, value_name = "D")]
    pub(crate) dims: Option<usize>,
    /// Points along every axis, or along each of them (10, or 8,9,10).
    #[arg(long, value_name = "S", required = true, value_delimiter = ',')]
    pub(crate) size: Vec<u64>,
}

/// Which of its cells are blocked.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Blocked cells")]
pub(crate) struct BlockedArgs {
    /// Block each cell with this probability, except the ends of a path (0.2).
    #[arg(long, value_name = "CHANCE")]
    pub(crate) blocked: Option<f64>,
    /// Seed: equal seeds block equal cells.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Block these cells: '17 18', '1,7 1,8'.
    #[arg(long, value_name = "CELLS")]
    pub(crate) block: Vec<String>,
    /// Block the cells that this file lists.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) blocked_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = PATH_HELP)]
pub(crate) struct PathArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// First cell.
    #[arg(long, value_name = "CELL", default_value = "0")]
    pub(crate) from: String,
    /// Last cell [default: the last of the lattice].
    #[arg(long, value_name = "CELL")]
    pub(crate) to: Option<String>,
    /// Cost of entering each cell: a file with one number per cell.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "random_weights")]
    pub(crate) weights: Option<PathBuf>,
    /// Random cost of entering a cell, between these two; drawn with --seed.
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 1, allow_hyphen_values = true)]
    pub(crate) random_weights: Option<Vec<f64>>,
    /// Also count the shortest paths (by steps).
    #[arg(long, conflicts_with_all = ["weights", "random_weights"])]
    pub(crate) count: bool,
    /// Draw a lattice of one or two dimensions and the path into this file, as SVG.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) blocked: BlockedArgs,
}

const PATH_HELP: &str = "\
Exit codes: 0 a path, 1 there is none (\"found\": false in --json) or it failed,
2 wrong usage.";

#[derive(Debug, ClapArgs)]
pub(crate) struct XorArgs {
    /// Bytes to transform; nothing or `-` is stdin.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
    /// Transform this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,
    /// Key in hexadecimal [default: 32 random bytes, printed].
    #[arg(long, value_name = "HEX")]
    pub(crate) key: Option<String>,
    /// Write the bytes to this file instead of printing them in hexadecimal.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// The bytes are the cells of a lattice with so many dimensions.
    #[arg(long, value_name = "D", requires = "size")]
    pub(crate) dims: Option<usize>,
    /// Points along every axis of that lattice, or along each of them.
    #[arg(long, value_name = "S", value_delimiter = ',')]
    pub(crate) size: Vec<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AnalyseArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// Analyse so many lattices in one batch, of this seed and the following ones.
    #[arg(long, value_name = "N", requires = "blocked", conflicts_with_all = ["centrality", "communities"],
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) lattices: Option<u64>,
    /// Also list the most central cells: degree, closeness, betweenness.
    #[arg(long)]
    pub(crate) centrality: bool,
    /// Also detect communities.
    #[arg(long)]
    pub(crate) communities: bool,
    #[command(flatten)]
    pub(crate) blocked: BlockedArgs,
}
