//! Seeds of the fuzz targets that are not text of ours in `seeds/`: Parquet and Arrow IPC files of every codec and column type,
//! traces, one selection per catalogue row, random IR. `seeds DIRECTORY` writes them into `DIRECTORY/TARGET/`.

use std::{error::Error, fs, path::Path};

type Done = Result<(), Box<dyn Error>>;
/// Writes one seed: target, name, bytes.
type Save<'s> = &'s dyn Fn(&str, &str, &[u8]) -> Done;

fn main() -> Done {
    let directory = std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?;
    let directory = Path::new(&directory);
    let save: Save<'_> = &|target, name, bytes| {
        let folder = directory.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name), bytes)?)
    };
    #[cfg(feature = "frame")]
    files::save(save)?;
    #[cfg(feature = "indicators")]
    for row in gpuforge_indicators::catalogue::all() {
        save("select", row.name, row.name.as_bytes())?;
    }
    #[cfg(feature = "dash")]
    save("trace", "recorded", trace()?.as_bytes())?;
    for at in 0..64 {
        save("jit_ir", &format!("random-{at}"), &random(at, 16 + at as usize * 6))?;
    }
    Ok(())
}

/// Small files of bars: every codec, and the column types of market data.
#[cfg(feature = "frame")]
mod files {
    use super::{Done, Save};
    use arrow::{
        array::{
            ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int64Array,
            RecordBatch, StringArray, TimestampMillisecondArray, TimestampNanosecondArray,
        },
        datatypes::Int32Type,
        ipc::{
            CompressionType,
            writer::{FileWriter, IpcWriteOptions, StreamWriter},
        },
    };
    use parquet::{
        arrow::ArrowWriter,
        basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel},
        file::properties::{WriterProperties, WriterVersion},
    };
    use std::sync::Arc;

    pub(super) fn save(save: Save<'_>) -> Done {
        for (at, table) in [dictionaries(12), numbers(9), texts(7), dictionaries(0)].iter().enumerate() {
            for (codec, properties) in parquet_properties() {
                let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties))?;
                writer.write(table)?;
                save("parquet", &format!("{at}-{codec}"), &writer.into_inner()?)?;
            }
            for codec in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
                let options = || IpcWriteOptions::default().try_with_compression(codec);
                let mut file = FileWriter::try_new_with_options(Vec::new(), &table.schema(), options()?)?;
                file.write(table)?;
                save("ipc", &format!("{at}-file-{codec:?}"), &file.into_inner()?)?;
                let mut stream = StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options()?)?;
                stream.write(table)?;
                save("ipc", &format!("{at}-stream-{codec:?}"), &stream.into_inner()?)?;
            }
        }
        Ok(())
    }

    fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }

    fn prices(rows: i64) -> impl Iterator<Item = Option<f64>> {
        (0..rows).map(|row| (row % 5 != 4).then_some(100.0 + row as f64 / 4.0))
    }

    fn dictionaries(rows: i64) -> RecordBatch {
        let symbol: DictionaryArray<Int32Type> =
            (0..rows).map(|row| if row % 2 == 0 { "AA" } else { "BB" }).collect();
        let price = || Arc::new(Float64Array::from_iter(prices(rows))) as ArrayRef;
        table(vec![
            ("symbol", Arc::new(symbol)),
            ("time", Arc::new(TimestampMillisecondArray::from_iter_values(0..rows))),
            ("open", price()),
            ("high", price()),
            ("low", price()),
            ("close", price()),
            ("volume", Arc::new(Int64Array::from_iter_values(0..rows))),
        ])
    }

    fn numbers(rows: i64) -> RecordBatch {
        let decimals = Decimal128Array::from_iter_values((0..rows).map(|row| i128::from(row) * 12_345));
        table(vec![
            ("ticker", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("S{}", row / 4))))),
            ("date", Arc::new(Date32Array::from_iter_values(19_000..19_000 + rows as i32))),
            ("close", Arc::new(decimals)),
            ("volume", Arc::new(Float32Array::from_iter_values((0..rows).map(|row| row as f32)))),
        ])
    }

    fn texts(rows: i64) -> RecordBatch {
        table(vec![
            ("timestamp", Arc::new(TimestampNanosecondArray::from_iter_values(0..rows).with_timezone("UTC"))),
            ("close", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{row}.5"))))),
        ])
    }

    fn parquet_properties() -> Vec<(&'static str, WriterProperties)> {
        let of = |codec| WriterProperties::builder().set_compression(codec);
        vec![
            ("plain", of(Compression::UNCOMPRESSED).set_dictionary_enabled(false).build()),
            ("dictionary", of(Compression::UNCOMPRESSED).build()),
            ("v2", of(Compression::SNAPPY).set_writer_version(WriterVersion::PARQUET_2_0).build()),
            ("gzip", of(Compression::GZIP(GzipLevel::default())).build()),
            ("brotli", of(Compression::BROTLI(BrotliLevel::default())).build()),
            ("lz4", of(Compression::LZ4_RAW).build()),
            (
                "zstd",
                of(Compression::ZSTD(ZstdLevel::default())).set_max_row_group_row_count(Some(4)).build(),
            ),
        ]
    }
}

#[cfg(feature = "dash")]
fn trace() -> Result<String, Box<dyn Error>> {
    use gpuforge_profile::{Category, Profiler};
    use std::time::{Duration, Instant};
    let profiler = Profiler::new();
    profiler.enable();
    profiler.scope("outer", Category::Cpu, || {
        let mut copy = profiler.span("copy", Category::Transfer);
        copy.bytes(4096);
        profiler.counter("bytes_uploaded").add(4096);
        profiler.gauge("pool_bytes").set(0.5);
    });
    let track = profiler.track("gpu 0");
    profiler.record("kernel", Category::Gpu, Instant::now(), Duration::from_micros(250), track);
    Ok(profiler.drain().to_json()?)
}

/// Bytes of SplitMix64.
fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ (x >> 27)) as u8
    };
    (0..length).map(|_| next()).collect()
}
