//! Feature importance: attention weights of the transformer, permutation importance of other models.

use crate::{
    data::Dataset,
    device_table::DeviceTable,
    fit,
    model::Architecture,
    model_card::FeatureWeight,
    net::{self, Net},
    rng::SeededRng,
};

/// Samples that are asked, at most.
const SAMPLES: usize = 2048;
/// Purpose of the random numbers of the exchange.
const PERMUTE: u64 = 2 << 32;

/// What the weights mean, and the weights, the largest first.
pub fn importance(
    data: &Dataset,
    net: &Net,
    table: &DeviceTable,
    samples: &[u32],
    seed: u64,
) -> Result<(String, Vec<FeatureWeight>), String> {
    let mut some = samples.to_vec();
    SeededRng::new(seed, PERMUTE).shuffle(&mut some);
    some.truncate(SAMPLES);
    let has_attention = matches!(net.spec.shape, Architecture::Transformer { .. });
    let (by, weights) = match has_attention {
        true => ("share of the attention that pools the indicators", attention(net, table, &some)?),
        false => (
            "loss added by exchanging the feature between samples",
            permutation_loss(data, net, table, &some)?,
        ),
    };
    let named = |(feature, weight): (&String, f64)| FeatureWeight { feature: feature.clone(), weight };
    let mut all: Vec<FeatureWeight> = data.columns.iter().zip(weights).map(named).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok((by.to_owned(), all))
}

/// The mean of what the transformer says.
fn attention(net: &Net, table: &DeviceTable, samples: &[u32]) -> Result<Vec<f64>, String> {
    let order = table.backend.order(samples);
    let each = fit::inference_batch(net);
    let mut sums = vec![0.0; net.spec.features];
    for first in (0..samples.len()).step_by(each) {
        let batch = table.draw(&order, first..(first + each).min(samples.len()));
        let Some(attention) = net.answer(batch.x).attention else { continue };
        let shares = table.backend.answers(attention.sum_dim(0))?;
        sums.iter_mut().zip(shares).for_each(|(sum, x)| *sum += f64::from(x));
    }
    let count = samples.len().max(1) as f64;
    Ok(sums.into_iter().map(|sum| sum / count).collect())
}

/// What the loss gains when a feature comes from another sample; the samples are in a random order, so the next one will do.
fn permutation_loss(
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
        let (own, other) = (table.draw(&order, of.clone()), table.draw(&others, of));
        let loss = |x| {
            let loss = net::loss(target, net.answer(x).values, own.y.clone());
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
