//! Source of a non-finite batch: the first feature that is NaN or infinite, or else the largest.

use crate::{data::Dataset, device_table::DeviceTable};

/// Names the feature, symbol and bar, for an error message.
pub(super) fn describe(data: &Dataset, table: &DeviceTable, samples: &[u32]) -> String {
    let order = table.backend.order(samples);
    let batch = table.batch(&order, 0..samples.len());
    let [count, window, features] = batch.x.dims();
    let Ok(values) = table.backend.fetch_predictions(batch.x.reshape([count, window * features])) else {
        return "the batch cannot be downloaded".to_owned();
    };
    let name = |at: usize| {
        let column = data.columns.get(at % features.max(1)).map_or("?", String::as_str);
        let sample = samples.get(at / (window * features).max(1)).copied().unwrap_or_default() as usize;
        let series = data.samples.series.get(sample).copied().unwrap_or_default() as usize;
        let symbol = data.symbols.get(series).map_or("?", String::as_str);
        let bar = data.samples.bar.get(sample).copied().unwrap_or_default();
        let value = values.get(at).copied().unwrap_or(f32::NAN);
        format!("feature `{column}` is {value} in the window of {symbol} that ends at bar {bar}")
    };
    if let Some(at) = values.iter().position(|x| !x.is_finite()) {
        return name(at);
    }
    let largest = values.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    match largest {
        Some((at, _)) => format!("every feature is finite; the largest: {}", name(at)),
        None => "the batch is empty".to_owned(),
    }
}
