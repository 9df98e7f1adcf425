// Iteration over the bars of a series, segment by segment.

// Words from a bar to the next one of its segment.
fn stride() -> u32 { return 1u << p.v[0].z; }

// The first bar of the next segment, and the last one of the previous segment.
fn first_of_next(segment: u32) -> Bar { return Bar(data[p.v[1].x + segment * 8u + 4u], 0u); }
fn last_of_previous(segment: u32) -> Bar { return Bar(data[p.v[1].x + segment * 8u + 3u], (1u << p.v[0].y) - 1u); }

// How many of `left` bars are in the segment of the first of them.
fn bars_in_segment(bar: Bar, left: u32) -> u32 { return min(left, (1u << p.v[0].y) - bar.step); }

// `n` bars later, which is in the same segment or the first of the next.
fn advance(bar: Bar, n: u32) -> Bar {
    if (bar.step + n < (1u << p.v[0].y)) {
        return Bar(bar.segment, bar.step + n);
    }
    return first_of_next(bar.segment);
}

