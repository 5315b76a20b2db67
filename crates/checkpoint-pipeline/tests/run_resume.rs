//! A job that fails, is stopped, and is run again: every row once.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, ReadOptions, Registry, StorageExt, StorageOptions, WriteOptions};
use checkpoint_pipeline::transform::{Batch, FnTransform, TransformError};
use checkpoint_pipeline::{ErrorKind, Ids, Pipeline};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

async fn write_input(registry: &Registry, url: &str, files: i64, rows: i64) {
    for file in 0..files {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(file * rows..(file + 1) * rows));
        let text: ArrayRef =
            Arc::new(StringArray::from_iter_values((file * rows..(file + 1) * rows).map(|i| format!("row {i}"))));
        write_file(registry, url, &format!("part-{file}"), &[("id", ids), ("text", text)]).await;
    }
}

async fn write_file(registry: &Registry, url: &str, name: &str, columns: &[(&str, ArrayRef)]) {
    let storage = registry.open_dir(url, &StorageOptions::new()).await.unwrap();
    let batch = RecordBatch::try_from_iter(columns.iter().cloned()).unwrap();
    let mut buffer = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut buffer, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let path = ObjectPath::parse(format!("{name}.parquet")).unwrap();
    let outcome = storage.write(&path, buffer.into(), WriteOptions::new()).await.unwrap();
    outcome.into_result(url).unwrap();
}

async fn output_ids(registry: &Registry, url: &str) -> BTreeMap<i64, usize> {
    let storage = registry.open_dir(url, &StorageOptions::new()).await.unwrap();
    let mut ids = BTreeMap::new();
    for (path, _) in storage.list_files(&ObjectPath::root(), false).await.unwrap() {
        if !path.name().ends_with(".parquet") {
            continue;
        }
        let bytes: Bytes = storage.read(&path, ReadOptions::new()).await.unwrap().bytes;
        for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
            for id in column.values() {
                *ids.entry(*id).or_insert(0) += 1;
            }
        }
    }
    ids
}

fn job(name: &str) -> Pipeline {
    Pipeline::new(
        [format!("memory://{name}/in")],
        format!("memory://{name}/out"),
        format!("memory://{name}/ckpt"),
        Ids::Column("id".into()),
    )
    .workers(2)
    .batch_rows(10)
    .rows_per_task(50)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_run_goes_on_where_it_stopped() {
    let registry = Registry::from_process();
    write_input(&registry, "memory://failed-run/in", 4, 250).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let failing = {
        let calls = calls.clone();
        FnTransform::new(move |batch: Batch| {
            if calls.fetch_add(1, Ordering::SeqCst) >= 60 {
                return Err(TransformError::new("the model fell over"));
            }
            Ok(vec![batch.records])
        })
    };
    let error = job("failed-run").transform(failing).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transform, "{error}");
    let done = output_ids(&registry, "memory://failed-run/out").await;
    assert!(done.len() >= 500 && done.len() < 1000, "finished tasks are committed: {}", done.len());

    let report = job("failed-run").run().await.unwrap();
    assert_eq!(report.skipped_rows as usize, done.len());
    assert_eq!(report.processed_rows as usize, 1000 - done.len());
    assert_eq!((report.input_rows, report.attempt, report.already_complete), (1000, 2, false));
    let ids = output_ids(&registry, "memory://failed-run/out").await;
    assert_eq!(ids.len(), 1000);
    assert!(ids.values().all(|times| *times == 1));

    let again = job("failed-run").run().await.unwrap();
    assert!(again.already_complete);
    assert_eq!((again.processed_rows, again.input_rows), (0, 1000));
    let checkpoint = registry.open_dir("memory://failed-run/ckpt", &StorageOptions::new()).await.unwrap();
    assert!(checkpoint.list_files(&ObjectPath::root(), true).await.unwrap().is_empty());
}

/// What is given up half way: the batch that fails, the one that repeats an ID, the one that is being transformed when
/// the run is stopped. Their task ends with the rows before them, and they are done by the next run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_given_up_is_not_committed_with_its_task() {
    let registry = Registry::from_process();
    let has_55 = |batch: &Batch| batch.records.column(0).as_primitive::<Int64Type>().values().contains(&55);
    for case in ["fails", "repeats", "stops"] {
        let name = format!("given-up-{case}");
        let ids = (0..100).map(|id| if case == "repeats" && id == 57 { 3 } else { id });
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
        write_file(&registry, &format!("memory://{name}/in"), "rows", &[("id", ids)]).await;
        let mut first = job(&name).workers(1).rows_per_task(1000);
        let stop = first.stop();
        first = match case {
            "fails" => first.transform(FnTransform::new(move |batch: Batch| match has_55(&batch) {
                true => Err(TransformError::new("no")),
                false => Ok(vec![batch.records]),
            })),
            "stops" => first.transform(FnTransform::new_async(move |batch: Batch| {
                let stop = stop.clone();
                async move {
                    if has_55(&batch) {
                        stop.request();
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, TransformError>(vec![batch.records])
                }
            })),
            _ => first,
        };
        let error = first.run().await.unwrap_err();
        let expected = match case {
            "fails" => ErrorKind::Transform,
            "repeats" => ErrorKind::BadData,
            _ => ErrorKind::Interrupted,
        };
        assert_eq!(error.kind(), expected, "{case}: {error}");
        let once: BTreeMap<i64, usize> = (0..50).map(|id| (id, 1)).collect();
        assert_eq!(output_ids(&registry, &format!("memory://{name}/out")).await, once, "{case}");
        if case != "repeats" {
            let report = job(&name).run().await.unwrap();
            assert_eq!((report.skipped_rows, report.processed_rows), (50, 50), "{case}");
            assert_eq!(output_ids(&registry, &format!("memory://{name}/out")).await.len(), 100, "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_and_multiplied_rows_are_done_once() {
    let registry = Registry::from_process();
    write_input(&registry, "memory://one-to-n/in", 1, 100).await;
    let transform = FnTransform::new(|batch: Batch| -> Result<_, TransformError> {
        let ids = batch.records.column(0).as_primitive::<Int64Type>();
        let keep: arrow::array::BooleanArray = ids.values().iter().map(|id| Some(id % 2 == 0)).collect();
        let even = arrow::compute::filter_record_batch(&batch.records, &keep).map_err(TransformError::from_error)?;
        Ok(vec![even.clone(), even])
    });
    let report = job("one-to-n").keep_checkpoint(true).transform(transform).run().await.unwrap();
    assert_eq!((report.processed_rows, report.written_rows), (100, 100));
    let ids = output_ids(&registry, "memory://one-to-n/out").await;
    assert_eq!(ids.len(), 50);
    assert!(ids.iter().all(|(id, times)| id % 2 == 0 && *times == 2));
    let again = job("one-to-n").keep_checkpoint(true).run().await.unwrap();
    assert!(again.already_complete, "dropped rows are done with their task");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_rows_are_set_aside_one_by_one() {
    let registry = Registry::from_process();
    write_input(&registry, "memory://set-aside/in", 1, 200).await;
    let picky = || {
        FnTransform::new(|batch: Batch| {
            let ids = batch.records.column(0).as_primitive::<Int64Type>();
            match ids.values().iter().find(|id| [7, 93, 94].contains(*id)) {
                Some(id) => Err(TransformError::new(format!("cannot digest {id}"))),
                None => Ok(vec![batch.records.clone()]),
            }
        })
    };
    for _ in 0..3 {
        let error = job("set-aside").max_failed_rows(2).transform(picky()).run().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transform, "no attempt has an allowance of its own: {error}");
    }
    let report = job("set-aside").max_failed_rows(5).transform(picky()).run().await.unwrap();
    assert_eq!(report.failed_rows, 3);
    let out = registry.open_dir("memory://set-aside/out", &StorageOptions::new()).await.unwrap();
    let failed = out.list_files(&ObjectPath::parse("_failed").unwrap(), false).await.unwrap();
    let mut lines = Vec::new();
    for (path, _) in failed {
        let bytes = out.read(&path, ReadOptions::new()).await.unwrap().bytes;
        lines.extend(String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned));
    }
    lines.sort();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().any(|l| l.contains("\"id\":93") && l.contains("cannot digest 93") && l.contains("row 93")));
    assert_eq!(output_ids(&registry, "memory://set-aside/out").await.len(), 197);
    let again = job("set-aside").run().await.unwrap();
    assert_eq!((again.failed_rows, again.processed_rows), (3, 0), "the checkpoint is kept, and says so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_json_form_and_of_other_columns_are_set_aside_too() {
    let registry = Registry::from_process();
    let ids = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 10)) as ArrayRef;
    let odd: ArrayRef = Arc::new(Float64Array::from_iter_values((0..10).map(|i| f64::NAN * f64::from(i))));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..10).map(|i| format!("name {i}"))));
    write_file(&registry, "memory://odd-rows/in", "a", &[("id", ids(0)), ("score", odd)]).await;
    write_file(&registry, "memory://odd-rows/in", "b", &[("id", ids(10)), ("name", names)]).await;
    let picky = FnTransform::new(|batch: Batch| {
        let id = batch.records.column(0).as_primitive::<Int64Type>().values()[0];
        match id % 10 == 3 {
            true => Err(TransformError::new("cannot digest it")),
            false => batch.records.project(&[0]).map(|ids| vec![ids]).map_err(TransformError::from_error),
        }
    });
    let pipeline = job("odd-rows").workers(1).batch_rows(1).max_failed_rows(5);
    let report = pipeline.transform(picky).run().await.unwrap();
    assert_eq!((report.failed_rows, report.written_files), (2, 1), "both files are of one task");
    let out = registry.open_dir("memory://odd-rows/out", &StorageOptions::new()).await.unwrap();
    let failed = out.list_files(&ObjectPath::parse("_failed").unwrap(), false).await.unwrap();
    let bytes = out.read(&failed[0].0, ReadOptions::new()).await.unwrap().bytes;
    let lines = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(lines.contains(r#""row":{"id":3,"score":"NaN"}"#), "{lines}");
    assert!(lines.contains(r#""row":{"id":13,"name":"name 3"}"#), "{lines}");
    assert_eq!(output_ids(&registry, "memory://odd-rows/out").await.len(), 18);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_keeps_what_is_finished() {
    let registry = Registry::from_process();
    write_input(&registry, "memory://stopped/in", 2, 500).await;
    let pipeline = job("stopped");
    let (stop, counters) = (pipeline.stop(), pipeline.counters());
    let slow = FnTransform::new(|batch: Batch| -> Result<_, TransformError> {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Ok(vec![batch.records])
    });
    let run = tokio::spawn(pipeline.transform(slow).run());
    while counters.processed_rows.load(Ordering::Relaxed) < 100 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    stop.request();
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    let report = job("stopped").run().await.unwrap();
    assert!(report.skipped_rows >= 100 && report.skipped_rows < 1000, "{report:?}");
    assert!(output_ids(&registry, "memory://stopped/out").await.values().all(|times| *times == 1));
    assert_eq!(report.skipped_rows + report.processed_rows, 1000);
}
