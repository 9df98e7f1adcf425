//! Which features count? The transformer says whom it listened to; of other models one feature after the other is exchanged
//! between samples, and what that costs is its weight.

use crate::{
    card::Weight,
    data::Dataset,
    dice::Dice,
    fit,
    model::Shape,
    net::{self, Net},
    table::Table,
};

/// Samples that are asked, at most.
const SAMPLES: usize = 2048;
/// Purpose of the random numbers of the exchange.
const EXCHANGE: u64 = 2 << 32;

/// What the weights mean, and the weights, the largest first.
pub fn importance(
    data: &Dataset,
    net: &Net,
    table: &Table,
    samples: &[u32],
    seed: u64,
) -> Result<(String, Vec<Weight>), String> {
    let mut some = samples.to_vec();
    Dice::new(seed, EXCHANGE).shuffle(&mut some);
    some.truncate(SAMPLES);
    let listens = matches!(net.spec.shape, Shape::Transformer { .. });
    let (by, weights) = match listens {
        true => ("share of the attention that pools the indicators", listened(net, table, &some)?),
        false => {
            ("loss added by exchanging the feature between samples", exchanged(data, net, table, &some)?)
        }
    };
    let named = |(feature, weight): (&String, f64)| Weight { feature: feature.clone(), weight };
    let mut all: Vec<Weight> = data.columns.iter().zip(weights).map(named).collect();
    all.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok((by.to_owned(), all))
}

/// The mean of what the transformer says.
fn listened(net: &Net, table: &Table, samples: &[u32]) -> Result<Vec<f64>, String> {
    let order = table.place.order(samples);
    let each = fit::together(net);
    let mut sums = vec![0.0; net.spec.features];
    for first in (0..samples.len()).step_by(each) {
        let batch = table.draw(&order, first..(first + each).min(samples.len()));
        let Some(listened) = net.answer(batch.x).listened else { continue };
        let shares = table.place.answers(listened.sum_dim(0))?;
        sums.iter_mut().zip(shares).for_each(|(sum, x)| *sum += f64::from(x));
    }
    let count = samples.len().max(1) as f64;
    Ok(sums.into_iter().map(|sum| sum / count).collect())
}

/// What the loss gains when a feature comes from another sample; the samples are in a random order, so the next one will do.
fn exchanged(data: &Dataset, net: &Net, table: &Table, samples: &[u32]) -> Result<Vec<f64>, String> {
    let target = data.recipe.target;
    let mut others = samples.to_vec();
    let one = 1.min(others.len());
    others.rotate_left(one);
    let (order, others) = (table.place.order(samples), table.place.order(&others));
    let each = fit::together(net);
    let mut gained = vec![0.0; net.spec.features];
    for first in (0..samples.len()).step_by(each) {
        let of = first..(first + each).min(samples.len());
        let share = of.len() as f64 / samples.len().max(1) as f64;
        let (own, other) = (table.draw(&order, of.clone()), table.draw(&others, of));
        let loss = |x| {
            let loss = net::loss(target, net.answer(x).values, own.y.clone());
            table.place.scalars(loss).map(|v| v.first().map_or(0.0, |x| f64::from(*x)))
        };
        let before = loss(own.x.clone())?;
        for (feature, gained) in gained.iter_mut().enumerate() {
            let after = loss(Table::exchange(own.x.clone(), other.x.clone(), feature))?;
            *gained += share * (after - before);
        }
    }
    Ok(gained)
}
