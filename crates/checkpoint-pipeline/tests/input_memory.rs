//! Memory: what an open reader holds stays within a bound, whatever the file decodes to.
//!
//! Measured with an allocator that counts. One test at a time, since the counter is the process's.

mod input_files;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use checkpoint_pipeline::Format;
use checkpoint_pipeline::input::{ReadConfig, SourceFile};
use input_files::{Files, batch};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ALONE: Mutex<()> = Mutex::new(());

fn add(size: usize) {
    let now = NOW.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is unsafe by definition; this one passes everything on")]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads a file to its end; gives its rows, and the most memory that was held above what was there before.
fn read(files: &Files, file: &SourceFile, config: &ReadConfig) -> (usize, usize) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut reader = files.open(file, config).expect("opens");
    let mut rows = 0;
    while let Some((position, batch)) = reader.next().expect("reads") {
        assert_eq!(position, rows as u64);
        rows += batch.num_rows();
    }
    (rows, PEAK.load(Ordering::Relaxed) - before)
}

fn write(properties: WriterProperties, batches: impl IntoIterator<Item = RecordBatch>) -> Vec<u8> {
    let mut batches = batches.into_iter().peekable();
    let schema = batches.peek().expect("one batch").schema();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema, Some(properties)).expect("opens");
    for batch in batches {
        writer.write(&batch).expect("writes");
    }
    writer.close().expect("closes");
    file
}

#[test]
fn a_dictionary_that_decodes_to_hundreds_of_megabytes() {
    let _alone = ALONE.lock();
    let files = Files::new();
    let words: Vec<String> = (0..60u8).map(|i| char::from(b'A' + i).to_string().repeat(10_000)).collect();
    for statistics in [EnabledStatistics::None, EnabledStatistics::Page] {
        let column: StringArray = (0..30_000).map(|i| Some(words[i % 60].as_str())).collect();
        let properties = WriterProperties::builder().set_statistics_enabled(statistics).build();
        let bytes = write(properties, [batch([("s", Arc::new(column) as ArrayRef)])]);
        assert!(bytes.len() < 2 << 20, "{}", bytes.len());
        let file = files.put("d.parquet", bytes, Format::Parquet);
        let (rows, peak) = read(&files, &file, &ReadConfig::new().with_batch_rows(1 << 20));
        assert_eq!(rows, 30_000);
        assert!(peak < 64 << 20, "{} MiB for 300 MB decoded", peak >> 20);
    }
}

#[test]
fn one_row_group_of_hundreds_of_megabytes() {
    let _alone = ALONE.lock();
    let files = Files::new();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(usize::MAX))
        .set_max_row_group_bytes(None)
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .build();
    let mut random = 1i64;
    let mut number = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random
    };
    let chunks = (0..40).map(|_| {
        let columns: Vec<(String, ArrayRef)> = (0..20)
            .map(|c| (format!("c{c}"), Arc::new((0..50_000).map(|_| number()).collect::<Int64Array>()) as ArrayRef))
            .collect();
        RecordBatch::try_from_iter(columns).expect("equal lengths")
    });
    let file = files.put("big.parquet", write(properties, chunks), Format::Parquet);
    assert!(file.meta.size > 300 << 20);
    let (rows, peak) = read(&files, &file, &ReadConfig::new());
    assert_eq!(rows, 2_000_000);
    assert!(peak < 64 << 20, "{} MiB", peak >> 20);
}

#[test]
fn tiny_rows_and_then_rows_of_20_megabytes() {
    let _alone = ALONE.lock();
    let files = Files::new();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_write_batch_size(1)
        .build();
    let rows = |from: i64, lengths: Vec<usize>| {
        let ids: Int64Array = (from..from + lengths.len() as i64).map(Some).collect();
        let text: StringArray = lengths.iter().map(|l| Some("x".repeat(*l))).collect();
        batch([("id", Arc::new(ids)), ("text", Arc::new(text))])
    };
    let tiny = rows(0, vec![10; 20_000]);
    let large = (0..15).map(|i| rows(20_000 + i, vec![20_000_000]));
    let bytes = write(properties, std::iter::once(tiny.clone()).chain(large).chain([rows(20_015, vec![10; 20_000])]));
    let file = files.put("skew.parquet", bytes, Format::Parquet);
    let (rows, peak) = read(&files, &file, &ReadConfig::new());
    assert_eq!(rows, 40_015);
    assert!(peak < 128 << 20, "{} MiB for rows of 20 MB", peak >> 20);
}

#[test]
fn compressed_text_of_hundreds_of_megabytes() {
    let _alone = ALONE.lock();
    let mut files = Files::new();
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("starts");
    for i in 0..300 {
        writeln!(encoder, "{{\"id\":{i},\"text\":\"{}\"}}", "y".repeat(1_000_000)).expect("compresses");
    }
    let file = files.put("t.jsonl.zst", encoder.finish().expect("compresses"), Format::JsonLines);
    files.infer(std::slice::from_ref(&file)).expect("infers");
    let (rows, peak) = read(&files, &file, &ReadConfig::new());
    assert_eq!(rows, 300);
    assert!(peak < 64 << 20, "{} MiB", peak >> 20);
}

/// Values of 1 MB in one page of 120 MB, or in one dictionary, as writers make them that look at the size
/// of a page only every thousand values.
#[test]
fn one_page_of_more_than_a_hundred_megabytes() {
    let _alone = ALONE.lock();
    let files = Files::new();
    let mut random = 1u64;
    let letter = |_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + ((random >> 40) % 90) as u8)
    };
    let noise: String = (0..250_000).map(letter).collect();
    let text: StringArray = (0..120).map(|i| Some(noise[i..].repeat(4))).collect();
    for (codec, dictionary) in [
        (Compression::SNAPPY, true),
        (Compression::SNAPPY, false),
        (Compression::LZ4_RAW, false),
        (Compression::ZSTD(ZstdLevel::default()), true),
        (Compression::UNCOMPRESSED, false),
    ] {
        let properties = WriterProperties::builder()
            .set_compression(codec)
            .set_dictionary_enabled(dictionary)
            .set_dictionary_page_size_limit(1 << 30)
            .set_data_page_size_limit(1 << 30)
            .set_write_batch_size(1 << 20)
            .build();
        let file = write(properties, [batch([("s", Arc::new(text.clone()) as ArrayRef)])]);
        let file = files.put("p.parquet", file, Format::Parquet);
        let (rows, peak) = read(&files, &file, &ReadConfig::new());
        assert_eq!(rows, 120);
        assert!(peak < 80 << 20, "{} MiB for {codec} with dictionary={dictionary}", peak >> 20);
    }
}
