//! Scale-out of indicators: the local engine, DataFusion on one node, Ballista with one and two executor processes; and a
//! moving average beside DataFusion's window function.
//!
//! All of them read the same Parquet file and write Parquet, with as many threads as there are cores: the local engine in one
//! process, DataFusion in as many partitions, executors with the cores divided among them. The moving averages are streamed
//! and dropped. Sides are interleaved.

use std::{
    io::{BufRead as _, BufReader},
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use datafusion::{arrow::array::RecordBatch, dataframe::DataFrame, prelude::ParquetReadOptions};
use futures::TryStreamExt as _;
use gpuforge::{
    frame::{
        read::{Input, ReadOptions},
        sample::{Interval, Sample as Recipe},
        write::{ColumnValues, WriteOptions, Writer},
    },
    indicators::{exec::ExecOptions, select::Selector},
    market::{self, MarketJob, Request},
};
use gpuforge_cluster::{
    Indicators as _,
    cluster::{self, Client, ExecutorOptions, Scheduler, SchedulerOptions},
    dataset::Staging,
    session::{self, Limits},
};

use crate::{
    measure::{Sample, ms},
    row::Row,
};

/// The argument that makes this program a process of a cluster.
pub(crate) const PROCESS: &str = "__cluster";
const BENCH: &str = "cluster";
const SYMBOLS: usize = 500;
const BARS: usize = 20_000;
const SELECT: &str = "rsi(14), macd(12,26,9), bbands(20,2,2), atr(14), adx(14), obv, sma(50), ema(20), stoch(14,3,3), \
                      cci(20), mfi(14), roc(10), willr(14)";
/// Interleaved rounds; the median counts.
const TURNS: usize = 3;

/// Polling interval of the executors' work directories.
const POLL: Duration = Duration::from_millis(100);

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A scheduler or an executor, until it is killed: `__cluster scheduler`, `__cluster executor ADDRESS SLOTS DIR`.
pub(crate) fn process(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = runtime().and_then(|runtime| {
        runtime.block_on(async {
            match args.as_slice() {
                ["scheduler"] => {
                    let options =
                        SchedulerOptions { host: HERE, port: 0, external_host: None, executor_timeout: 60 };
                    let scheduler = Scheduler::start(&options).await?;
                    use std::io::Write as _;
                    writeln!(std::io::stdout(), "{}", scheduler.address())?;
                    Ok(scheduler.serve().await?)
                }
                ["executor", scheduler, slots, dir] => Ok(cluster::executor(&ExecutorOptions {
                    scheduler: (*scheduler).to_owned(),
                    host: HERE,
                    external_host: None,
                    port: 0,
                    grpc_port: 0,
                    slots: slots.parse()?,
                    memory: None,
                    work_dir: PathBuf::from(dir),
                    heartbeat: 5,
                })
                .await?),
                other => Err(anyhow!("{other:?} is no cluster process")),
            }
        })
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {PROCESS}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

pub(crate) fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let bars = dir.path().join("bars.parquet");
    write_bars(&bars)?;
    let cores = std::thread::available_parallelism()?.get();
    let limits = Limits { partitions: Some(cores), memory: None };
    let runtime = runtime()?;
    let one = Cluster::start(&runtime, dir.path(), 1, cores)?;
    let two = Cluster::start(&runtime, dir.path(), 2, cores.div_ceil(2))?;
    let (mut local, mut node, mut on_one, mut on_two) = (vec![], vec![], vec![], vec![]);
    let (mut ours, mut theirs) = (vec![], vec![]);
    let mut shuffled = 0;
    for _ in 0..TURNS {
        local.push(ms(|| on_this_machine(&bars, &dir.path().join("local.parquet")))?);
        node.push(ms(|| runtime.block_on(on_one_node(&bars, dir.path(), &limits)))?);
        let (took, _) = runtime.block_on(one.run(&bars, dir.path(), &limits))?;
        on_one.push(took);
        let (took, bytes) = runtime.block_on(two.run(&bars, dir.path(), &limits))?;
        on_two.push(took);
        shuffled = bytes;
        ours.push(ms(|| runtime.block_on(averages(&bars, &limits, OURS)))?);
        theirs.push(ms(|| runtime.block_on(averages(&bars, &limits, THEIRS)))?);
    }
    let local = Sample::of(&local);
    let case = |what: &str| format!("{SYMBOLS}x{}k bars, {what}", BARS / 1000);
    // For sizing a cluster: a row of all columns, on one core.
    let per_row = Sample::of(
        &node.iter().map(|t| t * 1e6 * cores as f64 / (SYMBOLS * BARS) as f64).collect::<Vec<_>>(),
    );
    let plain = |what: &str, unit: &'static str, figure: &Sample| Row {
        unit,
        ratio: None,
        target: None,
        ..Row::vs_limit(BENCH, &case(what), figure, f64::NAN)
    };
    let beside = |what: &str, took: &[f64], share: Option<f64>| {
        Row::vs_peer(BENCH, &case(what), &Sample::of(took), "the local engine", &local, share)
    };
    Ok(vec![
        beside("DataFusion on one node", &node, Some(1.3)),
        beside("Ballista, 1 executor", &on_one, None),
        beside("Ballista, 2 executors", &on_two, None),
        plain("a row on one core of one node", "ns", &per_row),
        plain("shuffled with 2 executors", "MB", &Sample::of(&[shuffled as f64 / 1e6])),
        Row::vs_peer(
            BENCH,
            &case("one moving average in SQL"),
            &Sample::of(&ours),
            "DataFusion's avg() OVER",
            &Sample::of(&theirs),
            Some(1.0 / 3.0),
        ),
    ])
}

/// Writes the bars.
fn write_bars(path: &Path) -> Result<()> {
    let recipe = Recipe::new(SYMBOLS, Interval::Minute, BARS, 1);
    let columns = ["open", "high", "low", "close", "volume"].map(str::to_owned);
    let mut writer = Writer::create(path, &recipe.layout(), &columns, &WriteOptions::of(path)?)?;
    for bars in recipe.series() {
        let values =
            [&bars.open, &bars.high, &bars.low, &bars.close, &bars.volume].map(|c| ColumnValues::all(c));
        writer.write(bars.symbol.as_ref(), &bars.time, &values)?;
    }
    writer.finish()?;
    Ok(())
}

/// What `gpuforge indicators --with-bars` does.
fn on_this_machine(bars: &Path, output: &Path) -> Result<()> {
    let request = Request::of(&Selector::new().select(SELECT)?);
    let report = market::run(MarketJob {
        input: Input::from(bars),
        read: ReadOptions::default(),
        request: &request,
        output: output.to_owned(),
        write: WriteOptions::of(output)?,
        with_bars: true,
        options: ExecOptions::default(),
        memory: None,
        check: false,
        progress: None,
    })?;
    ensure!(report.rows == (SYMBOLS * BARS) as u64, "{} rows", report.rows);
    Ok(())
}

/// Writes a frame as a dataset, and checks how many rows it has.
fn dataset(frame: DataFrame, dir: &Path) -> Result<(tempfile::TempDir, Staging, DataFrame)> {
    let out = tempfile::tempdir_in(dir)?;
    let staging = Staging::new(out.path())?;
    let query = staging.write(frame)?;
    Ok((out, staging, query))
}

fn published(staging: Staging, rows: &[RecordBatch]) -> Result<()> {
    let rows: u64 = staging.publish(rows)?.iter().map(|p| p.rows).sum();
    ensure!(rows == (SYMBOLS * BARS) as u64, "{rows} rows");
    Ok(())
}

async fn on_one_node(bars: &Path, dir: &Path, limits: &Limits) -> Result<()> {
    let session = session::local(limits)?;
    let frame = session.read_parquet(text(bars)?, ParquetReadOptions::default()).await?;
    let (_out, staging, query) = dataset(frame.indicators(SELECT)?, dir)?;
    published(staging, &query.collect().await?)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

const OURS: &str = "SELECT symbol, time, sma_20 FROM indicators('bars', 'sma(20)')";
const THEIRS: &str = "SELECT symbol, time, avg(close) OVER (PARTITION BY symbol ORDER BY time \
                      ROWS BETWEEN 19 PRECEDING AND CURRENT ROW) AS sma_20 FROM bars";

async fn averages(bars: &Path, limits: &Limits, sql: &str) -> Result<()> {
    let session = session::local(limits)?;
    session.register_parquet("bars", text(bars)?, ParquetReadOptions::default()).await?;
    let mut stream = session.sql(sql).await?.execute_stream().await?;
    let mut rows = 0;
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows();
    }
    ensure!(rows == SYMBOLS * BARS, "{rows} rows");
    Ok(())
}

/// A scheduler and executors as processes, until it is dropped.
struct Cluster {
    processes: Vec<Child>,
    address: String,
    work: tempfile::TempDir,
}

impl Cluster {
    fn start(
        runtime: &tokio::runtime::Runtime,
        dir: &Path,
        executors: usize,
        slots: usize,
    ) -> Result<Cluster> {
        let own = std::env::current_exe()?;
        let mut scheduler = Command::new(&own)
            .args([PROCESS, "scheduler"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let mut address = String::new();
        let said = scheduler.stdout.take().context("a scheduler that says nothing")?;
        let mut cluster =
            Cluster { processes: vec![scheduler], address: String::new(), work: tempfile::tempdir_in(dir)? };
        BufReader::new(said).read_line(&mut address)?;
        cluster.address = address.trim().to_owned();
        for at in 0..executors {
            let work = cluster.work.path().join(at.to_string());
            std::fs::create_dir(&work)?;
            let child = Command::new(&own)
                .args([PROCESS, "executor", &cluster.address, &slots.to_string(), text(&work)?])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()?;
            cluster.processes.push(child);
        }
        let began = Instant::now();
        while runtime.block_on(cluster::status(&cluster.address)).map_or(0, |s| s.executors.len()) < executors
        {
            ensure!(began.elapsed() < Duration::from_secs(60), "the executors do not register");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    /// Milliseconds, and bytes that went from one step to the next.
    async fn run(&self, bars: &Path, dir: &Path, limits: &Limits) -> Result<(f64, u64)> {
        let began = Instant::now();
        let client = Client::connect(&self.address, limits).await?;
        let frame = client.session.read_parquet(text(bars)?, ParquetReadOptions::default()).await?;
        let (_out, staging, frame) = dataset(frame.indicators(SELECT)?, dir)?;
        let query = client.query(frame).await?;
        let mut most = 0;
        let rows: Vec<RecordBatch> = {
            let mut work = std::pin::pin!(query.stream()?.try_collect());
            loop {
                tokio::select! {
                    rows = &mut work => break rows?,
                    // What was shuffled stays until the job is done, and is removed then.
                    () = tokio::time::sleep(POLL) => most = most.max(size(self.work.path())),
                }
            }
        };
        published(staging, &rows)?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        query.finish().await;
        Ok((took, most))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Bytes of all files in a directory.
fn size(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}
