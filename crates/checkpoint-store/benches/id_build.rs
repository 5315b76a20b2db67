//! What does it cost to build the set of IDs that are done, and to load it from records?
//!
//! `cargo bench -p checkpoint-store --bench id_build [-- MILLIONS]` prints, for each kind of ID, seconds, processor
//! seconds, bytes an ID in the finished set, and the peak of memory over what the process had before, also as a
//! multiple of the finished set. Each case is a process of its own.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its table")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use checkpoint_fs::{MemoryStorage, PosixOptions, PosixStorage, StorageRef};
use checkpoint_store::{
    BeginOptions, Checkpoint, Fingerprint, IdColumn, IdSet, IdSetBuilder, IdSetOptions, ParquetIds, SystemRuntime,
    preview, row_hash,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rustix::time::{ClockId, clock_gettime};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// IDs of a column.
const COLUMN: u64 = 1 << 16;
/// Records that a checkpoint is loaded from.
const RECORDS: u64 = 1_000;
const CASES: [&str; 8] = ["int64", "binary16", "uuid", "sequence", "shuffle", "row-hash", "load-int64", "load-uuid"];

fn main() {
    // `cargo bench` passes options of its own.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    match args.as_slice() {
        [case, count] => run(case, count.parse().expect("a number")),
        rest => {
            let millions = rest.first().map_or(10, |n| n.parse().expect("a number of millions"));
            println!(
                "{:<12} {:>12} {:>8} {:>8} {:>9} {:>9} {:>6}",
                "IDs", "count", "s", "cpu s", "bytes/ID", "peak MB", "x set"
            );
            let program = std::env::current_exe().expect("this program");
            for case in CASES {
                let ran =
                    Command::new(&program).args([case.to_owned(), (millions * 1_000_000_u64).to_string()]).status();
                assert!(ran.expect("runs").success(), "{case}");
            }
        }
    }
}

fn run(case: &str, count: u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let kind = case.strip_prefix("load-").inspect(|kind| write_records(dir.path(), kind, count));
    let before = peak();
    let (wall, cpu) = (clock(ClockId::Monotonic), clock(ClockId::ProcessCPUTime));
    let (len, memory) = match kind {
        Some(kind) => load(dir.path(), kind),
        None => build(case, count),
    };
    let (wall, cpu) = (clock(ClockId::Monotonic) - wall, clock(ClockId::ProcessCPUTime) - cpu);
    let held = (peak() - before) as f64;
    println!(
        "{case:<12} {len:>12} {:>8.2} {:>8.2} {:>9.3} {:>9.1} {:>6.2}",
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        memory as f64 / len as f64,
        held / 1e6,
        held / memory as f64
    );
}

fn build(case: &str, count: u64) -> (u64, u64) {
    let mut options = IdSetOptions::default();
    options.row_hash = case == "row-hash";
    let builder = IdSetBuilder::new(options);
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(COLUMN, Ordering::Relaxed);
                    if first >= count {
                        return;
                    }
                    let ids = column(case, first, COLUMN.min(count - first), count);
                    let ids = IdColumn::try_new(&ids).expect("a type").expect("no nulls");
                    builder.push(&ids).expect("pushed");
                }
            });
        }
    });
    let set = builder.finish().expect("built");
    (set.len(), set.memory())
}

/// IDs `first..first + count` of a job of `total`.
fn column(kind: &str, first: u64, count: u64, total: u64) -> ArrayRef {
    let numbers = first..first + count;
    let random = |n: u64| row_hash::hash(0x5EED, n);
    match kind {
        "int64" => Arc::new(Int64Array::from_iter_values(numbers.map(|n| random(n) as i64))),
        "sequence" => Arc::new(Int64Array::from_iter_values(numbers.map(|n| n as i64))),
        // A step that shares no factor with the total visits all of them.
        "shuffle" => {
            let step = (total / 3 * 2 + 1..).find(|step| gcd(*step, total) == 1).unwrap_or(1);
            let number = |n: u64| (u128::from(n) * u128::from(step) % u128::from(total)) as i64;
            Arc::new(Int64Array::from_iter_values(numbers.map(number)))
        }
        "row-hash" => Arc::new(UInt64Array::from_iter_values(numbers.map(random))),
        "binary16" => {
            let bytes = numbers.map(|n| (u128::from(random(n)) << 64 | u128::from(random(!n))).to_le_bytes());
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes).expect("an array"))
        }
        _ => {
            let text = |n: u64| {
                let (high, low) = (random(n), random(!n));
                let parts = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF, low >> 48, low & 0xFFFF_FFFF_FFFF);
                format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", parts.0, parts.1, parts.2, parts.3, parts.4)
            };
            Arc::new(StringArray::from_iter_values(numbers.map(text)))
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Records as Ray leaves them.
fn write_records(dir: &Path, kind: &str, count: u64) {
    let each = count.div_ceil(RECORDS);
    for first in (0..count).step_by(each as usize) {
        let ids = column(kind, first, each.min(count - first), count);
        let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, true)]).expect("a batch");
        let file = std::fs::File::create(dir.join(format!("r_{first:012}.parquet"))).expect("a file");
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("writes");
        writer.close().expect("closes");
    }
}

fn load(dir: &Path, kind: &str) -> (u64, u64) {
    let storage: StorageRef = Arc::new(PosixStorage::open(dir, PosixOptions::new()).expect("opens"));
    let output: StorageRef = Arc::new(MemoryStorage::new("memory://id-build/output"));
    let (id_class, id_type) = if kind == "uuid" { ("text", "Utf8") } else { ("integer", "Int64") };
    let job = Fingerprint {
        id_column: "id".into(),
        id_class: id_class.into(),
        id_type: id_type.into(),
        row_hash: false,
        filter: None,
        output: output.url().into(),
        version: None,
        inputs: Vec::new(),
        inputs_unknown: false,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
    let options = BeginOptions::default();
    let found = runtime.block_on(preview(&checkpoint, &output, &job, &options, &ParquetIds)).expect("loads");
    (found.ids.len(), found.ids.memory())
}

fn clock(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The most memory that the process ever had.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
