//! Page CRC and row count validation of Parquet files, and its cost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail, and this one tells what it measured"
)]

use std::{path::Path, sync::Arc, time::Instant};

use arrow::{
    array::*,
    datatypes::{DataType, Field, Schema},
};
use gpuforge_frame::{
    KeySchema, SymbolKey,
    bars::KeyColumn,
    column_roles::Role,
    read::{Input, ReadOptions, read},
    write::{ColumnValues, WriteOptions, Writer},
};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    basic::Compression,
    file::{
        properties::WriterProperties,
        reader::{FileReader, SerializedFileReader},
        serialized_reader::ReadOptionsBuilder,
        writer::SerializedFileWriter,
    },
    schema::parser::parse_message_type,
};
use tempfile::TempDir;

const ROWS: usize = 57_000;

fn layout() -> KeySchema {
    let column = |name: &str, kind| Some(KeyColumn { name: name.to_owned(), data_type: kind });
    KeySchema {
        symbol: column("symbol", DataType::Utf8),
        time: column("time", DataType::Int64),
        time_first: false,
    }
}

/// A file as we write it: two symbols, several row groups, `columns` columns of floats.
fn written(path: &Path, rows: usize, columns: usize) {
    let names: Vec<String> =
        (0..columns).map(|c| if c == 0 { "close".to_owned() } else { format!("c{c}") }).collect();
    let options = WriteOptions { row_group: 20_000.max(rows / 8), ..WriteOptions::of(path).unwrap() };
    let mut writer = Writer::create(path, &layout(), &names, &options).unwrap();
    for symbol in ["A", "B"] {
        let time: Vec<i64> = (0..rows as i64 / 2).collect();
        let values: Vec<Vec<f64>> = (0..columns)
            .map(|c| time.iter().map(|t| (*t as f64 * 0.37 + c as f64).sin()).collect())
            .collect();
        let values: Vec<ColumnValues<'_>> = values.iter().map(|v| ColumnValues::all(v)).collect();
        writer.write(Some(&SymbolKey::Text(symbol.to_owned())), &time, &values).unwrap();
    }
    writer.finish().unwrap();
}

fn options() -> ReadOptions<'static> {
    ReadOptions { needed: vec![Role::Close], ..ReadOptions::default() }
}

fn refused(path: &Path) -> String {
    read(&Input::from(path), options()).unwrap_err().to_string()
}

#[test]
fn every_page_has_a_crc_and_a_flipped_bit_is_detected() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.parquet");
    written(&path, ROWS, 3);
    let (_, bars, _) = read(&Input::from(&path), options()).unwrap();
    assert_eq!((bars.len(), bars[1].close.len(), bars[1].close[7]), (2, ROWS / 2, (7.0_f64 * 0.37).sin()));
    let good = std::fs::read(&path).unwrap();
    let reader = SerializedFileReader::new_with_options(
        std::fs::File::open(&path).unwrap(),
        ReadOptionsBuilder::new().with_page_index().build(),
    )
    .unwrap();
    let metadata = reader.metadata();
    assert!(metadata.num_row_groups() > 1);
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for (at, column) in row_group.columns().iter().enumerate() {
            let locations = metadata.offset_index().map(|index| index[group][at].page_locations().clone());
            for location in locations.into_iter().flatten() {
                let end = location.offset as usize + location.compressed_page_size as usize;
                assert_eq!(good[location.offset as usize], 0x15, "a page begins where the index says: {at}");
                if column.column_path().string() != "c2" {
                    // The last byte of a page is data; the reader must see that it changed.
                    let mut bad = good.clone();
                    bad[end - 1] ^= 0x10;
                    std::fs::write(&path, &bad).unwrap();
                    let needed = vec![Role::Open, Role::Close];
                    let mut both = ReadOptions { needed, ..options() };
                    both.mapping.set(Role::Open, "c1");
                    let error = read(&Input::from(&path), both).unwrap_err().to_string();
                    assert!(error.contains("checksum") && error.contains("hint: copy"), "{error}");
                }
            }
        }
    }
}

#[test]
fn parquet_crate_reads_files_with_crc() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.parquet");
    written(&path, ROWS, 4);
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    let sizes: i64 = reader.metadata().row_groups().iter().map(|g| g.compressed_size()).sum();
    assert!(sizes as u64 <= std::fs::metadata(&path).unwrap().len());
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS);
    let symbols = batches[0].column(0).as_string::<i32>();
    assert_eq!(symbols.value(0), "A");
}

/// A footer with another number of rows: the varint of field 3 of the file's metadata, which stands behind the schema.
fn with_rows(bytes: &[u8], rows: i64, claimed: i64) -> Vec<u8> {
    let varint = |n: i64| {
        let mut left = ((n << 1) ^ (n >> 63)) as u64;
        let mut out = vec![0x16];
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
        out
    };
    let (old, new) = (varint(rows), varint(claimed));
    let tail = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    let footer = &bytes[tail - length..tail];
    let at = footer.windows(old.len()).position(|w| w == old).unwrap();
    let footer = [&footer[..at], &new, &footer[at + old.len()..]].concat();
    let long = (footer.len() as u32).to_le_bytes();
    [&bytes[..tail - length], &footer, &long, b"PAR1"].concat()
}

#[test]
fn inconsistent_row_counts_are_errors() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.parquet");
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let close: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|i| i as f64)));
    let data = RecordBatch::try_from_iter([("time", time), ("close", close)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(30_000)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), data.schema(), Some(properties)).unwrap();
    writer.write(&data).unwrap();
    let good = writer.into_inner().unwrap();
    std::fs::write(&path, &good).unwrap();
    assert_eq!(read(&Input::from(&path), options()).unwrap().2.rows, ROWS as u64);
    for (claimed, wanted) in [
        (1_000_000_000, "says 1000000000 rows, and its row groups have 57000"),
        (-5, "says -5 rows"),
        (56_999, "says 56999 rows"),
        (0, "says 0 rows"),
    ] {
        std::fs::write(&path, with_rows(&good, ROWS as i64, claimed)).unwrap();
        let error = refused(&path);
        assert!(error.contains(wanted) && error.contains("damaged"), "{claimed}: {error}");
    }
}

#[test]
fn binary_columns_are_not_numeric() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.parquet");
    let schema =
        Arc::new(parse_message_type("message m { required int64 time; required binary close; }").unwrap());
    let mut file =
        SerializedFileWriter::new(std::fs::File::create(&path).unwrap(), schema, Arc::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::Int64Type>().write_batch(&[1, 2], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let bytes = [vec![0xff, 0xfe, 1], vec![0x80]].map(parquet::data_type::ByteArray::from);
    column.typed::<parquet::data_type::ByteArrayType>().write_batch(&bytes, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();
    let error = refused(&path);
    assert!(error.contains("`close` is Binary (BYTE_ARRAY without UTF8 or DECIMAL)"), "{error}");
    assert!(error.contains("the close must be numbers"), "{error}");
    // A fixed length without a meaning is none either.
    let fixed = FixedSizeBinaryArray::try_from_iter([[1_u8; 4], [2; 4]].into_iter()).unwrap();
    let time: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let schema = Schema::new(vec![
        Field::new("time", DataType::Int64, false),
        Field::new("close", fixed.data_type().clone(), false),
    ]);
    let data = RecordBatch::try_new(Arc::new(schema), vec![time, Arc::new(fixed)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), data.schema(), None).unwrap();
    writer.write(&data).unwrap();
    writer.close().unwrap();
    assert!(refused(&path).contains("`close` is FixedSizeBinary"));
}

/// What checksums cost on some 50 MB: run it with `--run-ignored all --no-capture`.
#[test]
#[ignore = "measures; minutes of nothing to assert"]
fn cost_of_checksums() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.parquet");
    let began = Instant::now();
    written(&path, 1_000_000, 8);
    let (wrote, size) = (began.elapsed(), std::fs::metadata(&path).unwrap().len());
    let bytes = std::fs::read(&path).unwrap();
    let began = Instant::now();
    let sum = crc32fast::hash(&bytes);
    let hashing = began.elapsed();
    let mut reading = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.build().unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>(), 1_000_000);
        reading.push(began.elapsed());
    }
    reading.sort();
    // The same pages without checksums: the crate's own writer has none.
    let plain = dir.path().join("plain.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_dictionary_enabled(false)
        .set_encoding(parquet::basic::Encoding::BYTE_STREAM_SPLIT)
        .set_column_encoding("symbol".into(), parquet::basic::Encoding::PLAIN)
        .set_column_encoding("time".into(), parquet::basic::Encoding::DELTA_BINARY_PACKED)
        .build();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&plain).unwrap(), schema, Some(properties)).unwrap();
    reader.build().unwrap().for_each(|b| writer.write(&b.unwrap()).unwrap());
    writer.close().unwrap();
    let mut without = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&plain).unwrap()).unwrap();
        assert_eq!(reader.build().unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>(), 1_000_000);
        without.push(began.elapsed());
    }
    without.sort();
    eprintln!(
        "{} MB: written in {wrote:.1?}, one CRC over all bytes {hashing:.1?} ({sum:08x}); read verified {:.1?}, without {:.1?}",
        size / 1_000_000,
        reading[2],
        without[2]
    );
}
