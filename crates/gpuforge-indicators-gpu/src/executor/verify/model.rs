//! Model markets in which rounding dominates: nothing moves, every bar moves alike, moves are small beside the price.

use gpuforge_indicators::exec::Series;

/// Bars of a market.
const BARS: usize = 500;

/// Bars of a model market.
#[derive(Default)]
pub(super) struct Market {
    open: Vec<f64>,
    high: Vec<f64>,
    low: Vec<f64>,
    close: Vec<f64>,
    volume: Vec<f64>,
    time: Vec<f64>,
}

/// A flat market, straight trends up and down, one of uneven steps, and a walk at a high price without volume.
pub(super) fn markets() -> Vec<Market> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    // Whole numbers below `n`.
    let mut below = move |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) % n) as f64
    };
    vec![
        Market::new(40.0, 0.0, 900.0, |_| 0.0),
        Market::new(60.0, 0.25, 300.0, |_| 1.0),
        Market::new(900.0, 0.25, 300.0, |_| -1.0),
        Market::new(60.0, 0.25, 300.0, |_| 1.0 + below(6)),
        Market::new(8192.0, 1.0 / 64.0, 0.0, |_| below(81) - 40.0),
    ]
}

impl Market {
    /// Closes from `price` on, by steps of so many ticks; volumes from `volume` on, which grow unless there are none.
    fn new(price: f64, tick: f64, volume: f64, mut ticks: impl FnMut(usize) -> f64) -> Market {
        let mut market = Market::default();
        let mut last = price;
        for bar in 0..BARS {
            let close = last + tick * ticks(bar);
            let open = (last + close) / 2.0;
            market.open.push(open);
            market.high.push(open.max(close) + 2.0 * tick);
            market.low.push(open.min(close) - 3.0 * tick);
            market.close.push(close);
            market.volume.push(if volume > 0.0 { volume + bar as f64 } else { 0.0 });
            market.time.push(1.0e9 + 60.0 * bar as f64);
            last = close;
        }
        market
    }

    pub(super) fn series(&self) -> Series<'_> {
        Series {
            open: &self.open,
            high: &self.high,
            low: &self.low,
            close: &self.close,
            volume: &self.volume,
            time: &self.time,
        }
    }
}
