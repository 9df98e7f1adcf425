//! Raw trace JSON: the complete trace with a version, validated when it is read back.

use crate::{
    error::TraceError,
    trace::{Trace, VERSION},
};
use serde::Deserialize;
use std::io::Write;

impl Trace {
    /// Writes the complete trace as JSON; [`Trace::from_json`] reads it.
    pub fn write_json(&self, out: impl Write) -> Result<(), serde_json::Error> {
        serde_json::to_writer(out, self)
    }

    /// The complete trace as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads what [`Trace::write_json`] wrote. Dangling indices are an error.
    pub fn from_json(text: &str) -> Result<Trace, TraceError> {
        /// The version determines how to parse the rest, so it is parsed first.
        #[derive(Deserialize)]
        struct Head {
            version: u64,
        }
        let Head { version } = serde_json::from_str(text)?;
        if version != u64::from(VERSION) {
            return Err(TraceError::Version { found: version, known: VERSION });
        }
        let trace: Trace = serde_json::from_str(text)?;
        trace.check()?;
        Ok(trace)
    }

    fn check(&self) -> Result<(), TraceError> {
        let within = |what: &'static str, position: u32, length: usize| match (position as usize) < length {
            true => Ok(()),
            false => Err(TraceError::Position { what, position, length }),
        };
        let name = |position| within("name", position, self.names.len());
        for span in &self.spans {
            name(span.name)?;
            within("track", span.track, self.tracks.len())?;
        }
        self.counters.iter().try_for_each(|counter| name(counter.name))?;
        self.gauges.iter().try_for_each(|gauge| name(gauge.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        test_trace::{span, trace},
        trace::{CounterSeries, GaugeSeries},
    };

    fn full() -> Trace {
        let mut trace = trace(&[span("a \"quoted\"\n\u{0}name", 0, 0, 0, 10), span("b", 1, 0, 3, u64::MAX)]);
        trace.spans[0].bytes = Some(0);
        trace.counters.push(CounterSeries { name: 0, value: u64::MAX, samples: vec![(1, 2), (3, u64::MAX)] });
        trace.gauges.push(GaugeSeries {
            name: 1,
            value: 0.1,
            min: -1e300,
            max: 0.3,
            samples: vec![(7, 0.1)],
        });
        trace
    }

    #[test]
    fn json_round_trip() {
        for trace in [full(), trace(&[])] {
            let text = trace.to_json().unwrap();
            assert!(text.starts_with("{\"version\":1,"), "{text}");
            assert_eq!(Trace::from_json(&text).unwrap(), trace);
        }
    }

    proptest::proptest! {
        #[test]
        fn floats_round_trip_bit_exact(rate in 0.0_f64..1e12, value in proptest::num::f64::NORMAL) {
            let mut trace = full();
            trace.clock.ticks_per_second = Some(rate);
            trace.gauges[0].value = value;
            proptest::prop_assert_eq!(Trace::from_json(&trace.to_json().unwrap()).unwrap(), trace);
        }
    }

    #[test]
    fn unknown_version_and_dangling_indices_are_errors() {
        let check = |change: fn(&mut Trace)| {
            let mut trace = full();
            change(&mut trace);
            Trace::from_json(&trace.to_json().unwrap()).unwrap_err().to_string()
        };
        assert!(check(|t| t.version = 2).contains("version 2"));
        assert!(check(|t| t.spans[0].name = 9).contains("name 9, but has only 2"));
        assert!(check(|t| t.spans[0].track = 3).contains("track 3, but has only 3"));
        assert!(check(|t| t.counters[0].name = 2).contains("name 2"));
        assert!(check(|t| t.gauges[0].name = u32::MAX).contains("name"));
        // An unknown version is reported even when nothing else can be parsed.
        let found = Trace::from_json(r#"{"version":77,"tracks":"elsewhere"}"#).unwrap_err();
        assert!(matches!(found, TraceError::Version { found: 77, .. }));
    }

    proptest::proptest! {
        #[test]
        fn corrupt_text_is_an_error_not_a_panic(cut in 0_usize..400, byte in 0_u8..128, at in 0_usize..400) {
            let text = full().to_json().unwrap();
            let short: String = text.chars().take(cut).collect();
            if short.len() < text.len() {
                proptest::prop_assert!(Trace::from_json(&short).is_err());
            }
            let mut bytes = text.into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            // Whether it still parses depends on the byte; the check is that it does not panic.
            let damaged = Trace::from_json(&String::from_utf8_lossy(&bytes));
            if let Ok(trace) = damaged {
                trace.summary();
                trace.timeline(10);
            }
        }
    }
}
