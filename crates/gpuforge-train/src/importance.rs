//! Feature importance: attention weights of the transformer, permutation importance of other models.

use crate::{
    data::Dataset,
    device_table::DeviceTable,
    fit,
    model::Architecture,
    model_card::FeatureImportance,
    net::{self, Net},
    rng::SeededRng,
};

/// Samples used, at most.
const SAMPLES: usize = 2048;
/// RNG stream of the sample choice.
const PERMUTE: u64 = 2 << 32;

/// How importance is measured, and the importance of each feature, largest first.
pub fn importance(
    data: &Dataset,
    net: &Net,
    table: &DeviceTable,
    samples: &[u32],
    seed: u64,
) -> Result<(String, Vec<FeatureImportance>), String> {
    let mut some = samples.to_vec();
    SeededRng::new(seed, PERMUTE).shuffle(&mut some);
    some.truncate(SAMPLES);
    let has_attention = matches!(net.spec.architecture, Architecture::Transformer { .. });
    let (by, weights) = match has_attention {
        true => ("share of the attention that pools the indicators", attention(net, table, &some)?),
        false => (
            "loss added by exchanging the feature between samples",
            permutation_importance(data, net, table, &some)?,
        ),
    };
    let named = |(feature, weight): (&String, f64)| FeatureImportance { feature: feature.clone(), weight };
    let mut all: Vec<FeatureImportance> = data.columns.iter().zip(weights).map(named).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok((by.to_owned(), all))
}

/// Mean attention weight per feature.
fn attention(net: &Net, table: &DeviceTable, samples: &[u32]) -> Result<Vec<f64>, String> {
    let order = table.backend.order(samples);
    let each = fit::inference_batch(net);
    let mut sums = vec![0.0; net.spec.features];
    for first in (0..samples.len()).step_by(each) {
        let batch = table.batch(&order, first..(first + each).min(samples.len()));
        let Some(attention) = net.forward(batch.x).attention else { continue };
        let shares = table.backend.fetch_predictions(attention.sum_dim(0))?;
        sums.iter_mut().zip(shares).for_each(|(sum, x)| *sum += f64::from(x));
    }
    let count = samples.len().max(1) as f64;
    Ok(sums.into_iter().map(|sum| sum / count).collect())
}

/// Permutation importance: loss increase when a feature is taken from another sample. The samples are shuffled, so the next
/// one serves.
fn permutation_importance(
    data: &Dataset,
    net: &Net,
    table: &DeviceTable,
    samples: &[u32],
) -> Result<Vec<f64>, String> {
    let target = data.recipe.target;
    let mut others = samples.to_vec();
    let one = 1.min(others.len());
    others.rotate_left(one);
    let (order, others) = (table.backend.order(samples), table.backend.order(&others));
    let each = fit::inference_batch(net);
    let mut gained = vec![0.0; net.spec.features];
    for first in (0..samples.len()).step_by(each) {
        let of = first..(first + each).min(samples.len());
        let share = of.len() as f64 / samples.len().max(1) as f64;
        let (own, other) = (table.batch(&order, of.clone()), table.batch(&others, of));
        let loss = |x| {
            let loss = net::loss(target, net.forward(x).values, own.y.clone());
            table.backend.scalars(loss).map(|v| v.first().map_or(0.0, |x| f64::from(*x)))
        };
        let before = loss(own.x.clone())?;
        for (feature, gained) in gained.iter_mut().enumerate() {
            let after = loss(DeviceTable::permute_feature(own.x.clone(), other.x.clone(), feature))?;
            *gained += share * (after - before);
        }
    }
    Ok(gained)
}
