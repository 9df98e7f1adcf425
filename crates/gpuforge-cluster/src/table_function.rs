//! `SELECT * FROM indicators('bars', 'rsi(14)')`: a registered table or a path, and what is computed from it.

use std::{future::Future, sync::Arc};

use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{ScalarValue, TableReference},
    datasource::{
        ViewTable,
        file_format::{FileFormat, csv::CsvFormat, parquet::ParquetFormat},
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
        provider_as_source,
    },
    error::{DataFusionError, Result},
    execution::SessionState,
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder},
};
use futures::FutureExt as _;

use crate::{error::ClusterError, node::IndicatorNode, options::Options, spec::Spec};

/// The table function `indicators`.
#[derive(Debug, Default)]
pub struct IndicatorsFunction;

impl TableFunctionImpl for IndicatorsFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let texts = args.exprs().iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let (table, select, columns) = match texts.as_slice() {
            [table, select] => (table, select, ""),
            [table, select, columns] => (table, select, columns.as_str()),
            other => {
                let message = format!("indicators takes two or three texts, not {}", other.len());
                return Err(ClusterError::Arguments { message }.into());
            }
        };
        let session = args.session().as_any().downcast_ref::<SessionState>().ok_or_else(|| {
            DataFusionError::Internal("indicators is called outside of a session".to_owned())
        })?;
        let spec = Options::of(session.config()).apply(Spec::of(select)).with_columns(columns)?;
        let input = scan(session, table)?;
        let plan = IndicatorNode::try_new(&spec, table, input)?.plan();
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

fn text(expr: &Expr) -> Result<String, ClusterError> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)),
            _,
        ) => Ok(text.clone()),
        other => Err(ClusterError::Arguments { message: format!("`{other}` is not a text in quotes") }),
    }
}

/// Scans a registered table, or else the files of a path.
fn scan(session: &SessionState, name: &str) -> Result<LogicalPlan> {
    let reference = TableReference::parse_str(name);
    let registered = session.schema_for_ref(reference.clone()).ok();
    let found = match &registered {
        Some(schema) => block_on(schema.table(reference.table()))?,
        None => None,
    };
    let provider = match found {
        Some(provider) => provider,
        None if is_path(name) => return scan_files(session, name),
        None => {
            let mut tables = registered.map(|s| s.table_names()).unwrap_or_default();
            tables.sort();
            let hint = "register the table (CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'), or name a path \
                        such as 'bars.parquet'";
            return Err(ClusterError::Table { name: name.to_owned(), tables, hint: hint.to_owned() }.into());
        }
    };
    LogicalPlanBuilder::scan(reference, provider_as_source(provider), None)?.build()
}

/// Whether the name looks like a path.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\', '*']) || [".parquet", ".csv"].iter().any(|extension| name.ends_with(extension))
}

/// Scans the files of a path; the format follows from the extension.
fn scan_files(session: &SessionState, path: &str) -> Result<LogicalPlan> {
    let format: Arc<dyn FileFormat> = match path.ends_with(".csv") {
        true => Arc::new(CsvFormat::default()),
        false => Arc::new(ParquetFormat::default()),
    };
    let extension = if path.ends_with(".csv") { ".csv" } else { ".parquet" };
    let options = ListingOptions::new(format).with_file_extension(extension);
    let url = ListingTableUrl::parse(path)?;
    let config = ListingTableConfig::new(url).with_listing_options(options);
    let config = block_on(config.infer_schema(session))?;
    if config.file_schema.as_ref().is_none_or(|s| s.fields().is_empty()) {
        let hint = "check the path; directories are searched for files that end in .parquet".to_owned();
        return Err(ClusterError::Table { name: path.to_owned(), tables: Vec::new(), hint }.into());
    }
    let table = ListingTable::try_new(config)?;
    LogicalPlanBuilder::scan("bars", provider_as_source(Arc::new(table)), None)?.build()
}

/// Blocks on a future in a synchronous callback. Most are ready at once; the others run on a new thread, since a runtime
/// thread must not block on itself.
fn block_on<T: Send>(future: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let mut future = Box::pin(future);
    if let Some(ready) = future.as_mut().now_or_never() {
        return ready;
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
        });
        waiting
            .join()
            .unwrap_or_else(|_| Err(DataFusionError::Internal("a table could not be looked up".to_owned())))
    })
}
