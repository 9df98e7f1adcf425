// Walking along the bars of a series, run by run.

// Words from a bar to the next of its run.
fn stride() -> u32 { return 1u << p.v[0].z; }

// The first bar after a run, and the last one before it.
fn after(run: u32) -> Bar { return Bar(data[p.v[1].x + run * 8u + 4u], 0u); }
fn before(run: u32) -> Bar { return Bar(data[p.v[1].x + run * 8u + 3u], (1u << p.v[0].y) - 1u); }

// How many of `left` bars lie in the run of the first of them.
fn within(bar: Bar, left: u32) -> u32 { return min(left, (1u << p.v[0].y) - bar.step); }

// `n` bars later, which is in the same run or the first of the next.
fn passed(bar: Bar, n: u32) -> Bar {
    if (bar.step + n < (1u << p.v[0].y)) {
        return Bar(bar.run, bar.step + n);
    }
    return after(bar.run);
}

