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
    /// Log DataFusion and Ballista to stderr.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Memory limit of all tasks of this process together (512MiB, 8GiB, none).
    #[arg(long, global = true, value_name = "SIZE")]
    pub(crate) memory_limit: Option<String>,
    /// The hint.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The hint.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a scheduler: plans queries and assigns tasks to executors.
    Scheduler(SchedulerArgs),
    /// Run an executor for a scheduler.
    Executor(ExecutorArgs),
    /// Compute indicators of bars in files, and write them to one file.
    Submit(Job),
    /// Compute features of bars in files, and write a directory of Parquet files, each symbol in one file.
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
    /// Address to listen on. There is no encryption and no authentication: use a trusted network.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Port; 0 picks a free one.
    #[arg(long, default_value_t = gpuforge_cluster::cluster::PORT)]
    pub(crate) port: u16,
    /// Host name or address under which other machines reach this one.
    #[arg(long, value_name = "NAME")]
    pub(crate) external_host: Option<String>,
    /// Heartbeat timeout in seconds after which an executor's tasks are rescheduled.
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
    /// Host name or address under which other machines reach this one.
    #[arg(long, value_name = "NAME")]
    pub(crate) external_host: Option<String>,
    /// Port for shuffle data; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Port for gRPC; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) grpc_port: u16,
    /// Task slots; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    pub(crate) slots: usize,
    /// Directory for shuffle data; a temporary one by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) work_dir: Option<PathBuf>,
    /// Heartbeat interval in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) heartbeat: u64,
}

/// Scheduler and partitioning of a query.
#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulerArg {
    /// The scheduler: HOST:PORT; without one, an embedded scheduler and executor run in this process.
    #[arg(long, value_name = "HOST:PORT", env = "GPUFORGE_SCHEDULER")]
    pub(crate) scheduler: Option<String>,
    /// Partitions per stage; by default one per core of this machine.
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<usize>,
}

/// Flags of `submit` and `features`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Job {
    /// Parquet files of bars, or directories of them; executors must see them under the same path.
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
    /// Indicators: 'rsi(14), macd(12,26,9)', 'set:classic111'.
    #[arg(long, value_name = "EXPR", required = true)]
    pub(crate) select: Vec<String>,
    /// A name for an expression: 'spread = high - low'.
    #[arg(long, value_name = "NAME = EXPR")]
    pub(crate) define: Vec<String>,
    /// Column mapping: close=PX_LAST.
    #[arg(long = "column", value_name = "ROLE=NAME")]
    pub(crate) columns: Vec<String>,
    /// Where indicators are computed: cpu, auto or gpu.
    #[arg(long, default_value = "cpu")]
    pub(crate) device: String,
    /// Output file or directory.
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Scheduler and partitioning.
    #[command(flatten)]
    pub(crate) target: SchedulerArg,
}

/// Flags of `sql`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SqlArgs {
    /// Statements, run in order; the result of the last is printed.
    #[arg(required = true, value_name = "SQL")]
    pub(crate) statements: Vec<String>,
    /// A table for a Parquet file or a directory of them: bars=data/bars.parquet.
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub(crate) tables: Vec<String>,
    /// Write rows to this file (.parquet or .csv) instead of showing them.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Scheduler and partitioning.
    #[command(flatten)]
    pub(crate) target: SchedulerArg,
}
