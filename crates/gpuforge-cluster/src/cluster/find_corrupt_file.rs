//! Finds the corrupt file of a failed query: the reader's error does not name it, so the files are read once more, one by one.

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    datasource::{listing::ListingTable, source_as_provider},
    logical_expr::LogicalPlan,
    object_store::ObjectStoreExt as _,
    prelude::SessionContext,
};
use futures::TryStreamExt as _;
use parquet::{arrow::arrow_reader::ParquetRecordBatchReaderBuilder, file::reader::ChunkReader};

/// Substrings of errors that a Parquet reader may have caused.
const PARQUET_ERRORS: [&str; 3] = ["parquet", "Parquet", "Arrow error"];

/// The first unreadable file of a plan, and why; `None` if the error is not about a file.
pub(super) async fn find_corrupt_file(
    session: &SessionContext,
    plan: &LogicalPlan,
    error: &str,
) -> Option<(String, String)> {
    if !PARQUET_ERRORS.iter().any(|word| error.contains(word)) {
        return None;
    }
    for table in tables(plan) {
        for url in table.table_paths() {
            let store = session.runtime_env().object_store(url).ok()?;
            let state = session.state();
            let listed = url.list_all_files(&state, store.as_ref(), &table.options().file_extension).await;
            let files: Vec<_> = listed.ok()?.try_collect().await.ok()?;
            for file in files {
                let path = file.location.to_string();
                let bytes = match store.get(&file.location).await {
                    Ok(found) => found.bytes().await,
                    Err(error) => Err(error),
                };
                let read = match bytes {
                    Ok(bytes) => tokio::task::spawn_blocking(move || read(bytes))
                        .await
                        .unwrap_or_else(|_| Err("its decoder panicked".to_owned())),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(why) = read {
                    return Some((format!("{}{path}", url.object_store().as_str()), why));
                }
            }
        }
    }
    None
}

/// Decodes all of a file.
fn read(bytes: impl ChunkReader + 'static) -> Result<(), String> {
    let rows =
        ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|b| b.build()).map_err(|e| e.to_string())?;
    for batch in rows {
        batch.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// File tables scanned by a plan.
fn tables(plan: &LogicalPlan) -> Vec<ListingTable> {
    let mut all = Vec::new();
    // The visitor cannot fail.
    let _ = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<ListingTable>()
        {
            all.push(table.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    all
}
