//! Market data for training: files read whole, the last days of them, and a time axis that all symbols share.

use gpuforge_frame::{
    Bars, KeySchema,
    column_roles::Role,
    read::{self, Input, ReadOptions},
};
use gpuforge_indicators::{exec::Series, graph::Field, select};

use super::Recipe;
use crate::error::TrainError;

/// Indicator input field of each column role.
const COLUMNS: [(Field, Role); 6] = [
    (Field::Time, Role::Time),
    (Field::Open, Role::Open),
    (Field::High, Role::High),
    (Field::Low, Role::Low),
    (Field::Close, Role::Close),
    (Field::Volume, Role::Volume),
];

const DAY: f64 = 86_400.0;

/// Bar series with times in seconds; bars without time use their index.
#[derive(Debug, Clone, Default)]
pub struct MarketData {
    /// Bars per symbol.
    pub bars: Vec<Bars>,
    /// Times per symbol.
    pub seconds: Vec<Vec<f64>>,
    /// Schema of the key columns.
    pub layout: KeySchema,
}

impl MarketData {
    /// From bars in memory.
    pub fn new(layout: &KeySchema, bars: Vec<Bars>) -> MarketData {
        let seconds = |b: &Bars| match b.time.is_empty() {
            true => (0..b.len()).map(|i| i as f64).collect(),
            false => layout.seconds(&b.time),
        };
        MarketData { seconds: bars.iter().map(seconds).collect(), bars, layout: layout.clone() }
    }

    /// Reads the columns that a recipe needs, and keeps the last days.
    pub fn read(input: &Input, recipe: &Recipe, days: Option<u32>) -> Result<MarketData, TrainError> {
        let selection = select::plan(&recipe.select()?);
        let read: Vec<Field> = selection.plan.fields().collect();
        let wanted = |(field, _): &&(Field, Role)| {
            read.contains(field) || *field == Field::Close || *field == Field::Time && days.is_some()
        };
        let needed = COLUMNS.iter().filter(wanted).map(|(_, role)| *role).collect();
        let (layout, bars, _) = read::read(input, ReadOptions { needed, ..ReadOptions::default() })?;
        let market = MarketData::new(&layout, bars);
        Ok(match days {
            Some(days) => market.last_days(days),
            None => market,
        })
    }

    /// Keeps the last days, counted back from the newest bar of any symbol.
    pub fn last_days(self, days: u32) -> MarketData {
        let newest = self.seconds.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let from = newest - f64::from(days) * DAY;
        let mut kept = MarketData { layout: self.layout, ..MarketData::default() };
        for (mut bars, mut seconds) in self.bars.into_iter().zip(self.seconds) {
            let first = seconds.partition_point(|t| *t <= from);
            seconds.drain(..first.min(seconds.len()));
            let columns = [&mut bars.open, &mut bars.high, &mut bars.low, &mut bars.close, &mut bars.volume];
            for column in columns {
                column.drain(..first.min(column.len()));
            }
            bars.time.drain(..first.min(bars.time.len()));
            kept.bars.push(bars);
            kept.seconds.push(seconds);
        }
        kept
    }

    /// Borrowed as input of the indicator executor.
    pub fn series(&self) -> Vec<Series<'_>> {
        self.bars.iter().zip(&self.seconds).map(|(b, time)| series(b, time)).collect()
    }

    /// Series names.
    pub fn symbols(&self) -> Vec<String> {
        let name =
            |(i, b): (usize, &Bars)| b.symbol.as_ref().map_or(format!("series {i}"), |s| s.to_string());
        self.bars.iter().enumerate().map(name).collect()
    }
}

fn series<'a>(bars: &'a Bars, time: &'a [f64]) -> Series<'a> {
    let Bars { open, high, low, close, volume, .. } = bars;
    Series { open, high, low, close, volume, time }
}
