//! DataFusion on one machine gives the bits of `gpuforge indicators`, whatever the partitions, the order and the memory limit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use common::{Bars, SELECT, bars, expected, rows, table, uneven};
use datafusion::{
    datasource::MemTable,
    physical_plan::{ExecutionPlan, collect, displayable, execute_stream},
    prelude::{ParquetReadOptions, SessionContext, col},
};
use futures::StreamExt as _;
use gpuforge_cluster::{
    Indicators as _,
    dataset::Staging,
    session::{Limits, local},
    spec::Spec,
};

fn session(partitions: usize) -> SessionContext {
    local(&Limits { partitions: Some(partitions), memory: None }).unwrap()
}

async fn run(session: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    session.sql(sql).await.unwrap().collect().await.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn results_are_bit_identical_for_any_partitioning() {
    let file = Bars::new(&uneven());
    let (wanted, columns) = expected(&file.path, SELECT);
    assert!(wanted.len() > 20_000 && columns.len() > 10);
    for partitions in [1, 7, 64] {
        runtime().block_on(async {
            let session = session(partitions);
            let sql = format!("SELECT * FROM indicators('{}', '{SELECT}')", file.text());
            let found = rows(&run(&session, &sql).await, &columns);
            assert_eq!(found.len(), wanted.len(), "{partitions} partitions");
            let wrong = wanted.iter().find(|(key, cells)| found.get(*key) != Some(*cells));
            assert!(
                wrong.is_none(),
                "{partitions} partitions: {wrong:?} {:?}",
                wrong.map(|w| found.get(w.0))
            );
        });
    }
}

#[test]
fn empty_input_file_changes_nothing() {
    let file = Bars::new(&uneven());
    let directory = file.with_empty_file();
    let (wanted, columns) = expected(&file.path, SELECT);
    for partitions in [1, 7, 64] {
        let sql = format!("SELECT * FROM indicators('{directory}', '{SELECT}')");
        let found = runtime().block_on(async { run(&session(partitions), &sql).await });
        assert!(rows(&found, &columns) == wanted, "{partitions} partitions differ");
    }
}

#[test]
fn small_groups_and_dataframes_give_identical_results() {
    let file = Bars::new(&uneven());
    let (wanted, columns) = expected(&file.path, SELECT);
    runtime().block_on(async {
        let session = session(3);
        session.sql("SET gpuforge.group_bytes = 1048576").await.unwrap();
        let read = session.read_parquet(file.text(), ParquetReadOptions::default()).await.unwrap();
        let found = read.indicators(SELECT).unwrap().collect().await.unwrap();
        assert_eq!(rows(&found, &columns), wanted);
    });
}

/// Input declared as sorted streams without grouping, and one symbol exceeds a group.
#[test]
fn sorted_input_streams_and_large_symbol_is_chunked() {
    let file = Bars::new(&uneven());
    let (wanted, columns) = expected(&file.path, SELECT);
    runtime().block_on(async {
        let session = session(1);
        let all = session.read_parquet(file.text(), ParquetReadOptions::default()).await.unwrap();
        let order = vec![col("symbol").sort(true, false), col("ts").sort(true, false)];
        let sorted = all.sort(order.clone()).unwrap().collect().await.unwrap();
        let table = MemTable::try_new(sorted[0].schema(), vec![sorted]).unwrap().with_sort_order(vec![order]);
        session.register_table("bars", Arc::new(table)).unwrap();
        let spec = Spec { group_bytes: 1 << 20, ..Spec::of(SELECT) };
        let frame = session.table("bars").await.unwrap().indicators_of(&spec).unwrap();
        let plan = frame.clone().create_physical_plan().await.unwrap();
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert!(text.contains("input=sorted") && !text.contains("SortExec"), "{text}");
        assert_eq!(rows(&frame.collect().await.unwrap(), &columns), wanted);
    });
}

#[test]
fn empty_table_keeps_its_schema() {
    runtime().block_on(async {
        let session = session(4);
        session.register_batch("bars", bars(&[])).unwrap();
        let found = run(&session, "SELECT symbol, rsi_14 FROM indicators('bars', 'rsi(14)')").await;
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    });
}

#[test]
fn integer_and_dictionary_keys_are_accepted() {
    let file = Bars::new(&[("A".to_owned(), 60), ("B".to_owned(), 45)]);
    runtime().block_on(async {
        let session = session(4);
        session.register_parquet("raw", file.text(), ParquetReadOptions::default()).await.unwrap();
        let view = "CREATE VIEW odd AS SELECT CASE symbol WHEN 'A' THEN 7 ELSE 9 END AS id, \
                    CAST(ts AS BIGINT) / 60000000 AS day, arrow_cast(close, 'Float32') AS px, \
                    arrow_cast(symbol, 'Dictionary(Int32, Utf8)') AS tag FROM raw";
        session.sql(view).await.unwrap();
        let by_number =
            "SELECT sum(sma_5) AS s, count(sma_5) AS n FROM indicators('odd', 'sma(5)', 'symbol=id')";
        let by_tag =
            "SELECT sum(sma_5) AS s, count(sma_5) AS n FROM indicators('odd', 'sma(5)', 'symbol=tag')";
        let (a, b) = (run(&session, by_number).await, run(&session, by_tag).await);
        let counted = |r: &[RecordBatch]| format!("{:?}", r[0].column(1));
        assert_eq!(counted(&a), counted(&b));
        assert!(counted(&a).contains("97"), "{}", counted(&a));
    });
}

/// The input is more than four times the memory limit.
#[test]
fn memory_limit_spills_to_disk() {
    let symbols: Vec<(String, usize)> =
        (0..40).map(|i| (format!("S{i:02}"), 6000)).chain([("HUGE".to_owned(), 60_000)]).collect();
    let file = Bars::new(&symbols);
    let select = "rsi(14), sma(20), macd(12,26,9)";
    let (wanted, columns) = expected(&file.path, select);
    let limit = 4 << 20;
    let input: usize = common::read(&file.path).iter().map(RecordBatch::get_array_memory_size).sum();
    assert!(input > 4 * limit, "{input} bytes of input");
    runtime().block_on(async {
        let session = local(&Limits { partitions: Some(2), memory: Some(limit) }).unwrap();
        let sql = format!("SELECT * FROM indicators('{}', '{select}')", file.text());
        let frame = session.sql(&sql).await.unwrap();
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.unwrap();
        let found = collect(plan.clone(), context.clone()).await.unwrap();
        assert_eq!(rows(&found, &columns), wanted);
        assert!(metric(&plan, "sorted_on_disk") > 0, "nothing went through the disk");
        assert_eq!(context.memory_pool().reserved(), 0);
    });
}

/// The sum of a metric over the plan.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|m| m.sum_by_name(name)).map_or(0, |v| v.as_usize());
    own + plan.children().iter().map(|child| metric(child, name)).sum::<usize>()
}

#[test]
fn dropped_query_frees_its_memory() {
    let file = Bars::new(&uneven());
    runtime().block_on(async {
        let session = session(2);
        let sql = format!("SELECT * FROM indicators('{}', 'group:momentum, group:overlap')", file.text());
        let frame = session.sql(&sql).await.unwrap();
        let context = Arc::new(frame.task_ctx());
        let pool = context.memory_pool().clone();
        let mut stream = execute_stream(frame.create_physical_plan().await.unwrap(), context).unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.num_rows() > 0 && pool.reserved() > 0);
        drop(stream);
        for _ in 0..100 {
            if pool.reserved() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{} bytes are still reserved", pool.reserved());
    });
}

#[test]
fn projection_and_filter_are_pushed_down_and_metrics_reported() {
    let file = Bars::new(&uneven());
    runtime().block_on(async {
        let session = session(4);
        session.register_parquet("bars", file.text(), ParquetReadOptions::default()).await.unwrap();
        let sql = "SELECT symbol, ts, rsi_14 FROM indicators('bars', 'rsi(14)') WHERE symbol = 'HUGE' ORDER BY symbol, ts";
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let text = displayable(plan.as_ref()).indent(false).to_string();
        assert!(text.contains("projection=[symbol, ts, close]"), "{text}");
        assert!(text.contains("Hash([symbol@0]"), "{text}");
        // The node's own order is used: no sort above it. The filter went below it.
        let (above, below) = text.split_once("IndicatorExec").unwrap();
        assert!(!above.contains("SortExec") && !above.contains("FilterExec"), "{text}");
        assert!(below.contains("FilterExec") || below.contains("predicate="), "{text}");
        let metrics = run(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
        let metrics = arrow::util::pretty::pretty_format_batches(&metrics).unwrap().to_string();
        for name in ["symbols=1", "groups=1", "groups_on_device=0", "indicator_time=", "output_rows=20"] {
            assert!(metrics.contains(name), "{name}: {metrics}");
        }
    });
}

#[test]
fn window_functions_are_bit_identical() {
    let file = Bars::new(&uneven());
    let (wanted, columns) = expected(&file.path, "rsi(14), atr(10), macd(12,26,9).signal, sma(5)");
    runtime().block_on(async {
        let session = session(4);
        session.register_parquet("bars", file.text(), ParquetReadOptions::default()).await.unwrap();
        let names: Vec<String> = columns.iter().map(|c| format!("\"{c}\"")).collect();
        let sql = format!(
            "SELECT symbol, ts, rsi(close, 14) OVER w AS {}, atr(high, low, close, 10) OVER w AS {}, \
             macd_signal(close, 12, 26, 9) OVER w AS {}, sma(close, 5) OVER w AS {} FROM bars \
             WINDOW w AS (PARTITION BY symbol ORDER BY ts)",
            names[0], names[1], names[2], names[3]
        );
        assert_eq!(rows(&run(&session, &sql).await, &columns), wanted);
    });
}

#[test]
fn dataset_keeps_each_symbol_in_one_file() {
    let file = Bars::new(&uneven());
    let (wanted, columns) = expected(&file.path, "rsi(14), sma(5)");
    let out = file.dir.path().join("dataset");
    runtime().block_on(async {
        let session = session(3);
        let read = session.read_parquet(file.text(), ParquetReadOptions::default()).await.unwrap();
        let staging = Staging::new(&out).unwrap();
        let query = staging.write(read.indicators("rsi(14), sma(5)").unwrap()).unwrap();
        let parts = staging.publish(&query.collect().await.unwrap()).unwrap();
        assert_eq!(parts.len(), 3);
        let batches: Vec<RecordBatch> = parts.iter().flat_map(|p| common::read(&p.path)).collect();
        assert_eq!(rows(&batches, &columns), wanted);
    });
    // Nothing else is in the directory, and a second dataset does not go on top of it.
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3);
    assert!(Staging::new(&out).err().unwrap().to_string().contains("already"));
    let (again, _) = expected(&out, "rsi(14), sma(5)");
    assert_eq!(again, wanted);
}

/// The error of a query, at planning or at running.
async fn fails(session: &SessionContext, sql: &str) -> String {
    let failed = match session.sql(sql).await {
        Err(error) => error,
        Ok(frame) => frame.collect().await.expect_err(sql),
    };
    gpuforge_cluster::error::cause(&failed).map_or_else(|| failed.to_string(), ToString::to_string)
}

#[test]
fn errors_carry_a_hint() {
    runtime().block_on(async {
        let session = session(2);
        session.register_batch("bars", bars(&[("A".to_owned(), 30)])).unwrap();
        session.register_batch("twice", table(&[("A", 1, 1.0), ("A", 2, 1.0), ("A", 1, 2.0)])).unwrap();
        for sql in [
            "CREATE VIEW texts AS SELECT symbol, ts, CAST(close AS VARCHAR) AS close FROM bars",
            "CREATE VIEW renamed AS SELECT symbol, ts, close AS zzz FROM bars",
            "CREATE VIEW timeless AS SELECT symbol, close FROM bars",
            "CREATE VIEW holes AS SELECT symbol, CASE WHEN ts > to_timestamp_micros(0) THEN ts END AS ts, close FROM bars",
        ] {
            session.sql(sql).await.unwrap();
        }
        for (sql, parts) in [
            ("SELECT * FROM indicators('bars', 'rsii(14)')", &["rsii", "`rsi`", "hint"][..]),
            ("SELECT * FROM indicators('bars', '')", &["nothing is selected"]),
            ("SELECT * FROM indicators('bar', 'rsi(14)')", &["no table `bar`", "bars", "hint"]),
            ("SELECT * FROM indicators('none/such.parquet', 'rsi(14)')", &["none/such.parquet"]),
            ("SELECT * FROM indicators('bars')", &["two or three", "hint"]),
            ("SELECT * FROM indicators('bars', 14)", &["not a text"]),
            ("SELECT * FROM indicators('renamed', 'rsi(14)')", &["close column is missing", "zzz", "third argument"]),
            ("SELECT * FROM indicators('timeless', 'rsi(14)')", &["time column is missing"]),
            ("SELECT * FROM indicators('texts', 'rsi(14)')", &["`close` is Utf8", "numbers", "CAST(close AS DOUBLE)"]),
            ("SELECT * FROM indicators('bars', 'rsi(14)', 'clse=close')", &["clse"]),
            ("SELECT * FROM indicators('twice', 'rsi(14)')", &["A has the time 1 twice", "DISTINCT"]),
            ("SELECT * FROM indicators('holes', 'rsi(14)')", &["has no time", "IS NOT NULL"]),
            ("SELECT rsi(close, 14) OVER (PARTITION BY symbol) FROM bars", &["time order", "ORDER BY"]),
            ("SELECT rsi(symbol, 14) OVER (ORDER BY ts) FROM bars", &["must be numbers", "rsi(close, 14)"]),
            ("SELECT rsi(close, ts) OVER (ORDER BY ts) FROM bars", &["must be numbers"]),
            ("SELECT rsi(close, volume) OVER (ORDER BY ts) FROM bars", &["not a constant"]),
            ("SELECT rsi() OVER (ORDER BY ts) FROM bars", &["rsi"]),
        ] {
            let said = fails(&session, sql).await;
            for part in parts {
                assert!(said.contains(part), "{sql}\n  lacks {part:?}: {said}");
            }
        }
        session.sql("SET gpuforge.device = 'tpu'").await.unwrap();
        assert!(fails(&session, "SELECT * FROM indicators('bars', 'rsi(14)')").await.contains("cpu, auto or gpu"));
    });
}

#[test]
fn wrong_declared_order_is_rejected() {
    runtime().block_on(async {
        let session = session(1);
        let order = vec![vec![col("symbol").sort(true, false), col("ts").sort(true, false)]];
        for (name, rows, said) in [
            ("back", &[("A", 1, 1.0), ("A", 3, 1.0), ("A", 2, 2.0)][..], "2 comes after 3"),
            ("scattered", &[("A", 1, 1.0), ("B", 1, 1.0), ("A", 2, 2.0)], "not together"),
        ] {
            let batch = table(rows);
            let table =
                MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap().with_sort_order(order.clone());
            session.register_table(name, Arc::new(table)).unwrap();
            let failed = fails(&session, &format!("SELECT * FROM indicators('{name}', 'sma(2)')")).await;
            assert!(
                failed.contains("not sorted") && failed.contains(said) && failed.contains("hint"),
                "{failed}"
            );
        }
    });
}
