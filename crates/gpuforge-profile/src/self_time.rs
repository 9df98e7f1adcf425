//! Self times: a sweep over each track attributes every instant to the innermost open span, so nothing counts twice.

use crate::trace::{SpanRecord, Trace, TrackKind};
use std::cmp::Reverse;

type Order = (u32, u64, u16, Reverse<u64>);

/// Parents before their children.
fn order(span: &SpanRecord) -> Order {
    (span.track, span.start_ns, span.depth, Reverse(span.end_ns()))
}

/// Sorts the spans of a trace, and derives the depth of device spans by containment.
pub(crate) fn sort(trace: &mut Trace) {
    let Trace { spans, tracks, .. } = trace;
    spans.sort_by_key(order);
    let mut open: Vec<(u32, u64)> = Vec::new();
    for span in spans {
        let device = |track: u32| tracks.get(track as usize).map(|t| t.kind) == Some(TrackKind::Device);
        if device(span.track) {
            while open.pop_if(|(track, end)| *track != span.track || *end < span.end_ns()).is_some() {}
            span.depth = u16::try_from(open.len()).unwrap_or(u16::MAX);
            open.push((span.track, span.end_ns()));
        }
    }
}

/// Calls `f(span, from, to)` for every segment that belongs to one span alone, track by track, in time order.
///
/// `span` is an index in [`Trace::spans`]. Where spans overlap without nesting, the one that started later owns the
/// segment. Async tracks are excluded: their spans contain time that belongs to others.
pub(crate) fn segments(trace: &Trace, mut f: impl FnMut(usize, u64, u64)) {
    let nests = |span: &SpanRecord| trace.kind_of(span).is_some_and(|kind| kind != TrackKind::Async);
    let mut spans: Vec<(usize, &SpanRecord)> =
        trace.spans.iter().enumerate().filter(|(_, span)| nests(span)).collect();
    // A trace from a file may be in any order.
    spans.sort_by_key(|(_, span)| order(span));
    let mut open: Vec<(usize, &SpanRecord)> = Vec::new();
    let mut now = 0;
    let mut until = |index: usize, end: u64, now: &mut u64| {
        if end > *now {
            f(index, *now, end);
            *now = end;
        }
    };
    for (index, span) in spans {
        let over = |(_, top): &mut (usize, &SpanRecord)| {
            top.track != span.track
                || top.end_ns() < span.start_ns
                || (top.end_ns() == span.start_ns && top.depth >= span.depth)
        };
        while let Some((closed, top)) = open.pop_if(over) {
            until(closed, top.end_ns(), &mut now);
        }
        if let Some((around, _)) = open.last() {
            until(*around, span.start_ns, &mut now);
        }
        now = span.start_ns;
        open.push((index, span));
    }
    while let Some((closed, top)) = open.pop() {
        until(closed, top.end_ns(), &mut now);
    }
}

/// Self time of every span, `None` on async tracks.
pub(crate) fn self_times(trace: &Trace) -> Vec<Option<u64>> {
    let nests = |span: &SpanRecord| trace.kind_of(span).is_some_and(|kind| kind != TrackKind::Async);
    let mut times: Vec<Option<u64>> = trace.spans.iter().map(|span| nests(span).then_some(0)).collect();
    segments(trace, |index, from, to| {
        if let Some(Some(time)) = times.get_mut(index) {
            *time += to - from;
        }
    });
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trace::{span, trace};

    #[test]
    fn innermost_span_owns_the_segment() {
        let trace = trace(&[
            span("a", 0, 0, 0, 100),
            span("b", 0, 1, 10, 40),
            span("c", 0, 2, 20, 30),
            span("d", 0, 1, 50, 60),
            span("e", 1, 0, 0, 7),
        ]);
        let mut seen = Vec::new();
        segments(&trace, |index, from, to| seen.push((index, from, to)));
        assert_eq!(
            seen,
            [
                (0, 0, 10),
                (1, 10, 20),
                (2, 20, 30),
                (1, 30, 40),
                (0, 40, 50),
                (3, 50, 60),
                (0, 60, 100),
                (4, 0, 7)
            ]
        );
        assert_eq!(self_times(&trace), [60, 20, 10, 10, 7].map(Some));
    }

    #[test]
    fn adjacent_and_zero_length_spans_and_gaps() {
        let trace = trace(&[
            span("a", 0, 0, 0, 10),
            span("zero", 0, 1, 10, 10),
            span("b", 0, 0, 10, 20),
            span("zero", 0, 1, 10, 10),
            span("c", 0, 0, 30, 31),
        ]);
        assert_eq!(self_times(&trace), [10, 0, 10, 0, 1].map(Some));
    }

    #[test]
    fn overlapping_spans_are_not_counted_twice() {
        let trace = trace(&[span("a", 0, 0, 0, 10), span("b", 0, 1, 5, 15), span("c", 0, 0, 20, 21)]);
        assert_eq!(self_times(&trace), [5, 10, 1].map(Some));
    }

    #[test]
    fn async_spans_have_no_self_time() {
        let trace = trace(&[span("a", 0, 0, 0, 10), span("waits", 2, 0, 0, 1000)]);
        assert_eq!(self_times(&trace), [Some(10), None]);
    }

    proptest::proptest! {
        #[test]
        fn self_times_sum_to_the_covered_time(raw in proptest::collection::vec((0_u64..50, 0_u64..50, 0_u16..4), 0..40)) {
            let spans: Vec<_> = raw.iter().map(|(at, long, depth)| span("x", 0, *depth, *at, at + long)).collect();
            let covered = (0..100).filter(|t| raw.iter().any(|(at, long, _)| (*at..at + long).contains(t))).count();
            let total: u64 = self_times(&trace(&spans)).into_iter().flatten().sum();
            proptest::prop_assert_eq!(total, covered as u64);
        }
    }
}
