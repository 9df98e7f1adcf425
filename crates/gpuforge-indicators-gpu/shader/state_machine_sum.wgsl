// Cumulative sums since an anchor bar (VWAP, regression). Hierarchical summation: 32 at a time, those sums again 32 at a time,
// since an f32 sum of many small numbers stops growing.

// Three sums together: of up to 32 bars, of up to 1024, of all; and the base of the distances.
struct Sums {
    few: vec4<f32>,
    some: vec3<f32>,
    many: vec3<f32>,
}

fn total(sums: Sums) -> vec3<f32> {
    return sums.many + (sums.some + sums.few.xyz);
}

fn with_sums(sums: Sums, age: u32, base: f32, x: vec3<f32>) -> Sums {
    let few = sums.few.xyz + x;
    let full = (age & 31u) == 31u;
    let some = sums.some + select(vec3<f32>(0.0), few, full);
    let fuller = (age & 1023u) == 1023u;
    return Sums(
        vec4<f32>(select(few, vec3<f32>(0.0), full), base),
        select(some, vec3<f32>(0.0), fuller),
        sums.many + select(vec3<f32>(0.0), some, fuller),
    );
}

fn either_sums(first: bool, one: Sums, other: Sums) -> Sums {
    return Sums(
        select(other.few, one.few, first),
        select(other.some, one.some, first),
        select(other.many, one.many, first),
    );
}

// Volume, and volume times distance from the base and its square. A bar without volume has no weight; the first with one
// is the base.
fn with_bar(sums: Sums, age: u32, price: f32, volume: f32) -> Sums {
    let base = select(sums.few.w, price, total(sums).x == 0.0);
    let distance = price - base;
    let paid = volume * distance;
    return with_sums(sums, age, base, select(vec3<f32>(0.0), vec3<f32>(volume, paid, paid * distance), volume > 0.0));
}

// Mean and deviation; before any volume `empty` and 0.
fn line(sums: Sums, empty: f32) -> vec4<f32> {
    let all = total(sums);
    let any = all.x > 0.0;
    let mean = all.yz / select(1.0, all.x, any);
    let deviation = sqrt(max(mean.y - mean.x * mean.x, 0.0));
    return vec4<f32>(select(empty, sums.few.w + mean.x, any), select(0.0, deviation, any), 0.0, 0.0);
}

// Weighted mean and deviation since the last bar whose flag is set, or the first. Constants: 1 if the price is output before any
// volume, 1 if there is a flag.
fn since(s: ptr<function, State>, n: Constants, x: vec4<f32>, age: u32) -> vec4<f32> {
    let anew = n.a.y == 1.0 && x.z != 0.0;
    let old = Sums((*s).a, (*s).b.xyz, (*s).c.xyz);
    let sums = with_bar(either_sums(anew, Sums(), old), age, x.x, x.y);
    (*s).a = sums.few;
    (*s).b = vec4<f32>(sums.some, 0.0);
    (*s).c = vec4<f32>(sums.many, 0.0);
    return line(sums, select(0.0, x.x, n.a.x == 1.0));
}

// The same since the last flag of the previous day: the current output, and that of the next day.
fn since_before(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let day = x.z != 0.0;
    let tomorrow = Sums((*s).d, (*s).e.xyz, (*s).f.xyz);
    let sums = with_bar(either_sums(day, tomorrow, Sums((*s).a, (*s).b.xyz, (*s).c.xyz)), age, x.x, x.y);
    let coming = with_bar(either_sums(day || x.w != 0.0, Sums(), tomorrow), age, x.x, x.y);
    (*s).a = sums.few;
    (*s).b = vec4<f32>(sums.some, 0.0);
    (*s).c = vec4<f32>(sums.many, 0.0);
    (*s).d = coming.few;
    (*s).e = vec4<f32>(coming.some, 0.0);
    (*s).f = vec4<f32>(coming.many, 0.0);
    return line(sums, x.x);
}

// Last point of the least-squares line through all values so far, and their sample deviation. Sums of the distances from
// the first value, of those times the number of the bar, and of their squares.
fn so_far(s: ptr<function, State>, x: vec4<f32>, age: u32) -> vec4<f32> {
    let old = Sums((*s).a, (*s).b.xyz, (*s).c.xyz);
    let base = select(old.few.w, x.x, age == 0u);
    let distance = x.x - base;
    let before = f32(age);
    let sums = with_sums(old, age, base, vec3<f32>(distance, distance * before, distance * distance));
    (*s).a = sums.few;
    (*s).b = vec4<f32>(sums.some, 0.0);
    (*s).c = vec4<f32>(sums.many, 0.0);
    let all = total(sums);
    let n = before + 1.0;
    let mean = all.x / n;
    let slope = (all.y - 0.5 * before * all.x) / (n * max(n * n - 1.0, 1.0) / 12.0);
    let squares = max(all.z - mean * all.x, 0.0);
    return vec4<f32>(base + (mean + slope * (0.5 * before)), sqrt(squares / max(before, 1.0)), 0.0, 0.0);
}
