//! Arguments of `gpuforge detect`, `doctor` and `monitor`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueHint};

#[derive(Debug, ClapArgs)]
#[command(after_help = DETECT_EXAMPLES)]
pub(crate) struct Detect {
    /// Detect again and renew the cache.
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Neither read nor write the cache.
    #[arg(long, conflicts_with = "refresh")]
    pub(crate) no_cache: bool,
    /// Read kernel files only: load no driver library, wake no device.
    #[arg(long)]
    pub(crate) no_wake: bool,
    /// Print how long each phase and probe took.
    #[arg(long)]
    pub(crate) timings: bool,
    /// Deadline of one probe (5s, 800ms).
    #[arg(long, value_name = "TIME")]
    pub(crate) probe_timeout: Option<String>,
    /// Use this device: auto, cpu, a position, a bus id, a vendor or part of a name.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Detect and save what the probes read, without names and serial numbers.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["replay", "from", "refresh"])]
    pub(crate) record: Option<PathBuf>,
    /// Reproduce the inventory of a recording.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["from", "refresh", "no_cache", "no_wake"])]
    pub(crate) replay: Option<PathBuf>,
    /// Read the output of nvidia-smi, lspci, rocminfo, vulkaninfo… from a file, or from stdin with `-`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["refresh", "no_cache", "no_wake"],
          long_help = from_help())]
    pub(crate) from: Option<PathBuf>,
}

const DETECT_EXAMPLES: &str = "\
Examples:
  gpuforge detect --json
  lspci -nnk | gpuforge detect --from -
  gpuforge detect --from bug-report.txt --json
  gpuforge detect --record recording
  gpuforge detect --replay recording";

/// Lists the formats of the parser table.
fn from_help() -> String {
    let mut help =
        "Read text that was printed on another machine, from a file or from stdin with `-`. The format is \
                    recognised; several outputs pasted together are merged:"
            .to_owned();
    for format in gpuforge::hardware::parsers::FORMATS {
        help.push_str("\n  ");
        help.push_str(format.produced_by);
    }
    help
}

#[derive(Debug, ClapArgs)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct Doctor {
    /// Ask installed frameworks themselves whether they see the GPU; takes seconds.
    #[arg(long)]
    pub(crate) deep: bool,
    /// Do not use the network.
    #[arg(long)]
    pub(crate) offline: bool,
    /// Offer a script that corrects environment variables, and one that reverts it; changes nothing by itself.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Write the scripts of --fix without asking.
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
    /// Also write a report for a bug tracker, without names, addresses and serial numbers.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) bundle: Option<PathBuf>,
    /// Examine the system whose root directory this is; runs none of its programs.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["fix", "deep"])]
    pub(crate) root: Option<PathBuf>,
}

const DOCTOR_HELP: &str = "\
Examples:
  gpuforge doctor
  gpuforge doctor --deep --json
  gpuforge doctor --bundle report.txt
  gpuforge doctor --root /mnt/other

Exit codes: 0 healthy or worth a look (warning, unknown), 1 broken (error, critical).
Loads no GPU library; every program that is run is killed at its deadline.";

#[derive(Debug, ClapArgs)]
#[command(after_help = MONITOR_HELP)]
pub(crate) struct Monitor {
    /// Process to watch [default: the newest that publishes its state].
    pub(crate) pid: Option<u32>,
    /// Print one snapshot and exit; so does --json.
    #[arg(long, conflicts_with = "web")]
    pub(crate) once: bool,
    /// Serve a page on localhost; its address contains an access token.
    #[arg(long)]
    pub(crate) web: bool,
    /// Port of the page; 0 is any free one.
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "web")]
    pub(crate) port: u16,
}

const MONITOR_HELP: &str = "\
Examples:
  GPUFORGE_MONITOR=1 gpuforge demo      # a process that publishes its state
  gpuforge monitor                      # the newest one, on this terminal
  gpuforge monitor 4711 --once --json   # a snapshot of that process
  gpuforge monitor --web                # a page; /metrics for Prometheus

Only processes of the same user can be watched. Keys: ? help, q quit.";
