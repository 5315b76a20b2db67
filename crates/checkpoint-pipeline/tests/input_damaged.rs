//! Parquet files that are damaged, and that change while they are read.

mod input_files;

use checkpoint_pipeline::input::ReadConfig;
use checkpoint_pipeline::{ErrorKind, Format};
use input_files::rows::{every_type, skewed, small_pages};
use input_files::{Files, drain, parquet};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

#[test]
fn damaged_files_are_bad_data_and_named() {
    let files = Files::new();
    let good = parquet(&every_type(0, 2000), small_pages().set_compression(Compression::SNAPPY).build());
    let damaged: Vec<(&str, Vec<u8>)> = vec![
        ("zero bytes", vec![]),
        ("not parquet", b"id,name\n1,a\n".to_vec()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("no footer", good[..good.len() - 4].to_vec()),
        ("pages overwritten", {
            let mut bytes = good.clone();
            bytes[4..20_000].fill(0xA5);
            bytes
        }),
        ("pages zeroed", {
            let mut bytes = good.clone();
            bytes[4..20_000].fill(0);
            bytes
        }),
    ];
    for (what, bytes) in damaged {
        let file = files.put("damaged.parquet", bytes, Format::Parquet);
        let error = files.read(&file, &ReadConfig::new()).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::BadData, "{what}: {error}");
        assert!(error.to_string().contains("file=memory://t/damaged.parquet"), "{what}: {error}");
        assert!(!error.to_string().contains('\n'), "{what}: {error}");
    }
}

#[test]
fn no_flipped_byte_is_a_panic() {
    let files = Files::new();
    let good = parquet(&every_type(0, 50), WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut random = 12345u64;
    for _ in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % bytes.len();
            bytes[at] ^= 1 << (random >> 61);
        }
        let file = files.put("flipped.parquet", bytes, Format::Parquet);
        if let Err(error) = files.read(&file, &ReadConfig::new()) {
            assert_eq!(error.kind(), ErrorKind::BadData, "{error}");
        }
    }
}

#[test]
fn a_file_that_changed_or_went_is_a_conflict() {
    let files = Files::new();
    let rows = skewed(4000);
    let properties = || WriterProperties::builder().set_max_row_group_row_count(Some(400)).build();
    let bytes = parquet(&rows, properties());
    let file = files.put("f.parquet", bytes.clone(), Format::Parquet);
    let mut reader = files.open(&file, &ReadConfig::new()).expect("opens");
    reader.next().expect("reads").expect("rows");
    files.replace("f.parquet", bytes);
    let error = drain(reader.as_mut()).expect_err("changed");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("file=memory://t/f.parquet"), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(files.read(&file, &ReadConfig::new()).expect_err("changed").kind(), ErrorKind::Conflict);

    files.runtime.block_on(files.storage.delete(&file.path, checkpoint_fs::DeleteOptions::new())).expect("deleted");
    assert_eq!(files.read(&file, &ReadConfig::new()).expect_err("gone").kind(), ErrorKind::Conflict);
}
