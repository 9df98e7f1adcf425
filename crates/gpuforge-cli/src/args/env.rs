//! Arguments of `gpuforge env`: recommend, create, list, show, update, check-data.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use gpuforge::env::{compat::Version, render::FORMATS};

#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Env {
    /// Say which build of a framework to use on a machine, and why not the others.
    Recommend(EnvArgs),
    /// Write the files that install it: pip, uv, conda, pixi, Docker, Apptainer.
    Create(EnvCreate),
    /// List the profiles and how well each fits a machine.
    List(TargetArgs),
    /// Show a profile: its packages on a machine, and what is left out.
    Show {
        /// Name, or a file with a profile of your own.
        name: String,
        #[command(flatten)]
        framework: FrameworkArgs,
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Install a newer table of builds, profiles or error patterns.
    Update {
        /// The table; its kind is recognised.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: PathBuf,
    },
    /// Check the tables in use: those that came with gpuforge, and yours.
    CheckData,
}

const EXAMPLES: &str = "\
Examples:
  gpuforge env recommend --for 'GTX 1080' --driver 580.95.05
  gpuforge env create --profile nlp --format uv,docker -o nlp
  gpuforge env list --json
  gpuforge env show nlp --framework pytorch";

/// Which machine; this one by default.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Machine")]
pub(crate) struct TargetArgs {
    /// Plan for another GPU or a cloud instance: 'RTX 4090', aws:g5.xlarge, gcp:a2-highgpu-1g.
    #[arg(long = "for", value_name = "GPU", conflicts_with = "from")]
    pub(crate) wanted: Option<String>,
    /// Plan for the machine that this text was printed on, as in `detect --from`; `-` is stdin.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) from: Option<PathBuf>,
    /// Version of its NVIDIA driver (580.95.05).
    #[arg(long, value_name = "VERSION")]
    pub(crate) driver: Option<Version>,
    /// Compute capability (8.9) or gfx target (gfx1100) of its GPU.
    #[arg(long, value_name = "X.Y", value_parser = capability)]
    pub(crate) compute_capability: Option<String>,
    /// Memory of its GPU in GiB.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) gpu_memory: Option<u32>,
    /// Its system: linux-x86_64, linux-aarch64, windows-x86_64, wsl, macos-aarch64, macos-x86_64.
    #[arg(long, value_name = "NAME")]
    pub(crate) platform: Option<String>,
    /// Version of its macOS (14.5).
    #[arg(long, value_name = "VERSION")]
    pub(crate) os_version: Option<Version>,
    /// Use the CPU only.
    #[arg(long, conflicts_with_all = ["compute_capability", "gpu_memory"])]
    pub(crate) cpu_only: bool,
}

/// Which framework.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct FrameworkArgs {
    /// pytorch, tensorflow or jax [default: the setting default_framework].
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// Python version of the environment (3.12).
    #[arg(long, value_name = "VERSION", value_parser = python)]
    pub(crate) python: Option<Version>,
}

/// Framework, profile and machine of an environment.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    pub(crate) framework: FrameworkArgs,
    /// Profile, or a file with one of your own [default: the setting preferred_profile if set, else the best fit].
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = formats_help())]
pub(crate) struct EnvCreate {
    /// Formats, separated by commas, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) format: Vec<String>,
    /// Directory for the files, which is created; `-` prints one format to stdout.
    #[arg(short, long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// Overwrite existing files.
    #[arg(long)]
    pub(crate) force: bool,
    /// Install it, with uv, pip, conda or pixi.
    #[arg(long)]
    pub(crate) install: bool,
    #[command(flatten)]
    pub(crate) env: EnvArgs,
}

/// The rows of the format table.
fn formats_help() -> String {
    let mut help = "Formats:".to_owned();
    for format in FORMATS {
        help.push_str(&format!("\n  {:<10} {:<17} {}", format.name, format.file, format.about));
    }
    help.push_str("\nA script check_gpu.py beside them checks whether the framework sees the GPU.");
    help
}

/// Parses `8.9`, or a gfx target.
fn capability(text: &str) -> Result<String, String> {
    let lower = text.trim().to_ascii_lowercase();
    let gfx = lower
        .strip_prefix("gfx")
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()));
    let number = lower.parse::<Version>().is_ok() && lower.split('.').count() == 2;
    if gfx || number {
        Ok(lower)
    } else {
        Err("a compute capability such as 8.9, or a target such as gfx1100".to_owned())
    }
}

fn python(text: &str) -> Result<Version, String> {
    let version = text.parse::<Version>().ok().filter(|v| v.major() == 3 && text.contains('.'));
    version.ok_or_else(|| "a version of Python such as 3.12".to_owned())
}
