//! Folded stacks: self time by call path, outermost span first.

use std::{cmp::Reverse, collections::BTreeMap};

use gpuforge_profile::{SpanRecord, Trace, TrackKind};

/// Maximum depth; deeper spans count for their ancestor.
pub const MAX_DEPTH: usize = 64;
/// Maximum number of stacks, the largest first: beyond, a frame is narrower than a pixel.
pub const MAX_PATHS: usize = 4000;

/// Self time by stack (`outer;inner`), over all threads and devices. Async spans overlap freely and are left out.
pub fn of(trace: &Trace) -> BTreeMap<String, u64> {
    let nests = |span: &&SpanRecord| trace.kind_of(span).is_some_and(|kind| kind != TrackKind::Async);
    let mut spans: Vec<&SpanRecord> = trace.spans.iter().filter(nests).collect();
    spans.sort_by_key(|s| (s.track, s.start_ns, s.depth, Reverse(s.end_ns())));
    let mut paths: Paths<'_> = BTreeMap::new();
    let mut open: Vec<(&SpanRecord, u64)> = Vec::new();
    let mut path: Vec<u32> = Vec::new();
    for span in spans {
        let over = |(top, _): &mut (&SpanRecord, u64)| {
            top.track != span.track || top.end_ns() < span.end_ns() || top.end_ns() <= span.start_ns
        };
        while let Some(closed) = open.pop_if(over) {
            close(trace, closed, &mut path, &mut paths);
        }
        if open.len() < MAX_DEPTH {
            if let Some((_, inside)) = open.last_mut() {
                *inside = inside.saturating_add(span.duration_ns);
            }
            open.push((span, 0));
            path.push(span.name);
        }
    }
    while let Some(closed) = open.pop() {
        close(trace, closed, &mut path, &mut paths);
    }
    largest(trace, paths)
}

/// Root and name ids from the outside in, self time.
type Paths<'a> = BTreeMap<(&'static str, Vec<u32>), u64>;

fn close(trace: &Trace, (span, inside): (&SpanRecord, u64), path: &mut Vec<u32>, paths: &mut Paths<'_>) {
    let root = if trace.kind_of(span) == Some(TrackKind::Device) { "devices" } else { "threads" };
    let own = paths.entry((root, path.clone())).or_default();
    *own = own.saturating_add(span.duration_ns.saturating_sub(inside));
    path.pop();
}

fn largest(trace: &Trace, paths: Paths<'_>) -> BTreeMap<String, u64> {
    let mut rows: Vec<_> = paths.into_iter().filter(|(_, own)| *own > 0).collect();
    rows.sort_by_key(|(_, own)| Reverse(*own));
    rows.truncate(MAX_PATHS);
    let text = |(root, path): (&str, Vec<u32>)| {
        // Semicolons separate frames.
        let names = path.iter().map(|name| trace.name(*name).replace(';', ":"));
        std::iter::once(root.to_owned()).chain(names).collect::<Vec<_>>().join(";")
    };
    let mut out = BTreeMap::new();
    for (path, own) in rows {
        let sum: &mut u64 = out.entry(text(path)).or_default();
        *sum = sum.saturating_add(own);
    }
    out
}
