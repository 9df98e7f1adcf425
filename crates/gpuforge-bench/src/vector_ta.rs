//! vector-ta, the second peer of the indicator benchmark: functions that both have, into preallocated buffers.
//!
//! Its sources are tens of megabytes, so it is behind a feature: `cargo xtask bench indicators` turns it on.

use anyhow::{Result, anyhow};
use vector_ta::indicators::{
    adx::{AdxInput, AdxParams, adx_into},
    atr::{AtrInput, AtrParams, atr_into},
    linearreg_slope::{LinearRegSlopeInput, LinearRegSlopeParams, linearreg_slope_into},
    mom::{MomInput, MomParams, mom_into},
    moving_averages::{
        ema::{EmaInput, EmaParams, ema_into},
        sma::{SmaInput, SmaParams, sma_into},
        wma::{WmaInput, WmaParams, wma_into},
    },
    obv::{ObvInput, ObvParams, obv_into},
    roc::{RocInput, RocParams, roc_into},
    rsi::{RsiInput, RsiParams, rsi_into},
    willr::{WillrInput, WillrParams, willr_into},
};

use crate::indicators::Market;

/// A function of the peer: bars, window, output buffer.
pub(crate) type Function = fn(&Market, usize, &mut [f64]) -> Result<()>;

macro_rules! of_close {
    ($into:ident, $input:ident, $params:ident) => {
        |m, n, out| {
            let input = $input::from_slice(&m.close, $params { period: Some(n) });
            $into(&input, out).map_err(|e| anyhow!("{e:?}"))
        }
    };
}

/// Our name of each function that both have.
pub(crate) const FUNCTIONS: [(&str, Function); 11] = [
    ("sma", of_close!(sma_into, SmaInput, SmaParams)),
    ("ema", of_close!(ema_into, EmaInput, EmaParams)),
    ("wma", of_close!(wma_into, WmaInput, WmaParams)),
    ("rsi", of_close!(rsi_into, RsiInput, RsiParams)),
    ("roc", of_close!(roc_into, RocInput, RocParams)),
    ("mom", of_close!(mom_into, MomInput, MomParams)),
    ("linearreg_slope", of_close!(linearreg_slope_into, LinearRegSlopeInput, LinearRegSlopeParams)),
    ("atr", |m, n, out| {
        let input = AtrInput::from_slices(&m.high, &m.low, &m.close, AtrParams { length: Some(n) });
        atr_into(&input, out).map_err(|e| anyhow!("{e:?}"))
    }),
    ("adx", |m, n, out| {
        let input = AdxInput::from_slices(&m.high, &m.low, &m.close, AdxParams { period: Some(n) });
        adx_into(&input, out).map_err(|e| anyhow!("{e:?}"))
    }),
    ("willr", |m, n, out| {
        let input = WillrInput::from_slices(&m.high, &m.low, &m.close, WillrParams { period: Some(n) });
        willr_into(out, &input).map_err(|e| anyhow!("{e:?}"))
    }),
    ("obv", |m, _, out| {
        let input = ObvInput::from_slices(&m.close, &m.volume, ObvParams::default());
        obv_into(&input, out).map_err(|e| anyhow!("{e:?}"))
    }),
];
