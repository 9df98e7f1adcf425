//! Command-line arguments of gpuforge-cluster.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Indicators on many machines: SQL, jobs and datasets on a scheduler and its executors, or on all of it in this process.
#[derive(Debug, Parser)]
#[command(name = "gpuforge-cluster", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say on stderr what the engines do.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Most memory of all tasks of this process together (512MiB, 8GiB, none).
    #[arg(long, global = true, value_name = "SIZE")]
    pub(crate) memory_limit: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Plan queries and hand their tasks to executors.
    Scheduler(SchedulerArgs),
    /// Compute tasks of a scheduler.
    Executor(ExecutorArgs),
    /// Compute indicators of bars in files, and write them to one file.
    Submit(Job),
    /// Compute features of bars in files, and write them as a directory of Parquet files, each symbol in one of them.
    Features(Job),
    /// Run SQL; indicators('bars.parquet', 'rsi(14)') is a table.
    Sql(SqlArgs),
    /// Show executors and jobs of a scheduler.
    Status {
        /// The scheduler: HOST:PORT.
        #[arg(long, value_name = "HOST:PORT", env = "GPUFORGE_SCHEDULER", default_value = "127.0.0.1:50050")]
        scheduler: String,
    },
}

/// Flags of `scheduler`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulerArgs {
    /// Address to listen on. Nothing is encrypted, and nobody is asked who they are: use a network that you trust.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Port; 0 is any that is free.
    #[arg(long, default_value_t = gpuforge_cluster::cluster::PORT)]
    pub(crate) port: u16,
    /// What other machines call this one.
    #[arg(long, value_name = "NAME")]
    pub(crate) external_host: Option<String>,
    /// Seconds of silence after which an executor is given up and its tasks go to others.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) executor_timeout: u64,
}

/// Flags of `executor`.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExecutorArgs {
    /// The scheduler: HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", env = "GPUFORGE_SCHEDULER", default_value = "127.0.0.1:50050")]
    pub(crate) scheduler: String,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// What other machines call this one.
    #[arg(long, value_name = "NAME")]
    pub(crate) external_host: Option<String>,
    /// Port for data; 0 is any that is free.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Port for orders; 0 is any that is free.
    #[arg(long, default_value_t = 0)]
    pub(crate) grpc_port: u16,
    /// Tasks at once; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    pub(crate) slots: usize,
    /// Folder for data between steps; a temporary one unless it is named.
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
    /// Seconds between signs of life.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) heartbeat: u64,
}

/// Where a query runs.
#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulerArg {
    /// The scheduler: HOST:PORT; without one, scheduler and executor run in this process.
    #[arg(long, value_name = "HOST:PORT", env = "GPUFORGE_SCHEDULER")]
    pub(crate) scheduler: Option<String>,
    /// Partitions of every step; one per core of this machine unless it is given.
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<usize>,
}

/// Flags of `submit` and `features`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Job {
    /// Parquet files of bars, or directories of them; executors must see them under the same name.
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
    /// Indicators: 'rsi(14), macd(12,26,9)', 'set:classic111'.
    #[arg(long, value_name = "EXPR", required = true)]
    pub(crate) select: Vec<String>,
    /// A name for an expression: 'spread = high - low'.
    #[arg(long, value_name = "NAME = EXPR")]
    pub(crate) define: Vec<String>,
    /// Which column is what: close=PX_LAST.
    #[arg(long = "column", value_name = "ROLE=NAME")]
    pub(crate) columns: Vec<String>,
    /// Where indicators are computed: cpu, auto or gpu.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// Where results go.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Where it runs.
    #[command(flatten)]
    pub(crate) place: SchedulerArg,
}

/// Flags of `sql`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SqlArgs {
    /// Statements, one after the other; the result of the last is shown.
    #[arg(required = true, value_name = "SQL")]
    pub(crate) statements: Vec<String>,
    /// A table for a Parquet file or a directory of them: bars=data/bars.parquet.
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub(crate) tables: Vec<String>,
    /// Write rows to this file (.parquet or .csv) instead of showing them.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Where it runs.
    #[command(flatten)]
    pub(crate) place: SchedulerArg,
}
