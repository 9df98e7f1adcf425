//! What can be typed after `gpuforge env`? Its commands and flags.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueHint};
use gpuforge::env::{compat::Version, render::FORMATS};

#[derive(Debug, Subcommand)]
pub(crate) enum Env {
    /// Say which build of a framework to use on a machine, and why not the others.
    Recommend(What),
    /// Write the files that install it: pip, uv, conda, pixi, Docker, Apptainer.
    Create(Create),
    /// List the profiles and how well each fits a machine.
    List(Target),
    /// Show a profile: its packages on a machine, and what is left out.
    Show {
        /// Name, or a file with a profile of your own.
        name: String,
        #[command(flatten)]
        what: Framework,
        #[command(flatten)]
        target: Target,
    },
    /// Take over a newer table of builds, profiles or errors.
    Update {
        /// The table; which one it is, is recognised.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: PathBuf,
    },
    /// Check the tables in use: those that came with gpuforge, and yours.
    CheckData,
}

/// Which machine; this one where nothing is said.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Machine")]
pub(crate) struct Target {
    /// Plan for another GPU or a machine for hire: 'RTX 4090', aws:g5.xlarge, gcp:a2-highgpu-1g.
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
    /// GiB of memory of its GPU.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) gpu_memory: Option<u32>,
    /// Its system: linux-x86_64, linux-aarch64, windows-x86_64, wsl, macos-aarch64, macos-x86_64.
    #[arg(long, value_name = "NAME")]
    pub(crate) platform: Option<String>,
    /// Version of its macOS (14.5).
    #[arg(long, value_name = "VERSION")]
    pub(crate) os_version: Option<Version>,
    /// Use the processor only.
    #[arg(long, conflicts_with_all = ["compute_capability", "gpu_memory"])]
    pub(crate) cpu_only: bool,
}

/// Which framework.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Framework {
    /// pytorch, tensorflow or jax [default: the setting default_framework].
    #[arg(long, value_name = "NAME")]
    pub(crate) framework: Option<String>,
    /// Python of the environment (3.12).
    #[arg(long, value_name = "VERSION", value_parser = python)]
    pub(crate) python: Option<Version>,
}

/// What kind of environment.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct What {
    #[command(flatten)]
    pub(crate) framework: Framework,
    /// Profile, or a file with one of your own [default: the setting preferred_profile if set, else the best fit].
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = formats_help())]
pub(crate) struct Create {
    #[command(flatten)]
    pub(crate) what: What,
    /// Formats, with commas between them, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) format: Vec<String>,
    /// Folder for the files, which is created; `-` prints one format to stdout.
    #[arg(short, long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// Replace files that are there.
    #[arg(long)]
    pub(crate) force: bool,
    /// Install it, with uv, pip, conda or pixi.
    #[arg(long)]
    pub(crate) install: bool,
}

/// The formats come from their table.
fn formats_help() -> String {
    let mut help = "Formats:".to_owned();
    for format in FORMATS {
        help.push_str(&format!("\n  {:<10} {:<17} {}", format.name, format.file, format.about));
    }
    help.push_str("\nA script check_gpu.py beside them says whether the framework sees the GPU.");
    help
}

/// `8.9`, or a gfx target.
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
