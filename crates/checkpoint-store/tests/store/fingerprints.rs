//! What must not change between attempts, and which recorded fingerprint holds.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use checkpoint_store::{
    Attempt, AttemptState, Begin, BeginOptions, Error, ErrorKind, Fingerprint, InputFile, ParquetIds, TaskPlan,
};

use crate::small_job::{World, attempt, column, fingerprint, kind, left, parquet, write_task};

fn input(path: &str) -> InputFile {
    InputFile { path: path.into(), size: 1, version: Some("v".into()), rows: None }
}

fn allow_changed() -> BeginOptions {
    let mut options = BeginOptions::default();
    options.allow_changed_read = true;
    options
}

async fn begin(world: &World, now: Fingerprint, options: BeginOptions) -> Result<Begin, Error> {
    let checkpoint = world.seen_by(&world.process("a"));
    Box::pin(Attempt::begin(&checkpoint, &world.output, now, options, &ParquetIds)).await
}

/// An attempt that commits one row and fails.
async fn one_row(world: &World, now: &Fingerprint, options: BeginOptions, id: i64) {
    let attempt = attempt(begin(world, now.clone(), options).await);
    write_task(&attempt, &[id]).await.expect("writes");
    attempt.end(AttemptState::Failed).await.expect("ends");
}

async fn recorded(world: &World) -> Fingerprint {
    world.look().snapshot().await.expect("reads").fingerprint().expect("has one").clone()
}

#[tokio::test]
async fn what_is_allowed_is_recorded_and_holds_from_then_on() {
    let world = World::new(true);
    let first = fingerprint(&world.output);
    let second = Fingerprint { version: Some("2".into()), ..first.clone() };
    one_row(&world, &first, BeginOptions::default(), 1).await;
    assert_eq!(kind(begin(&world, second.clone(), BeginOptions::default()).await), ErrorKind::Conflict);
    assert_eq!(recorded(&world).await, first, "a refusal changes nothing");
    one_row(&world, &second, allow_changed(), 2).await;
    assert_eq!(recorded(&world).await, second);
    one_row(&world, &second, BeginOptions::default(), 3).await;
    assert_eq!(kind(begin(&world, first, BeginOptions::default()).await), ErrorKind::Conflict, "the new one holds");
}

#[tokio::test]
async fn an_input_that_grows_is_recorded_and_one_that_is_gone_is_refused() {
    let world = World::new(true);
    let first = fingerprint(&world.output);
    let mut grown = first.clone();
    grown.inputs.push(input("/in/b.parquet"));
    one_row(&world, &first, BeginOptions::default(), 1).await;
    one_row(&world, &grown, BeginOptions::default(), 2).await;
    assert_eq!(recorded(&world).await, grown);
    let error = begin(&world, first, BeginOptions::default()).await.expect_err("a file is gone");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("/in/b.parquet"), "{error}");
}

#[tokio::test]
async fn nothing_allows_other_ids_or_another_output() {
    let world = World::new(true);
    let first = fingerprint(&world.output);
    one_row(&world, &first, BeginOptions::default(), 1).await;
    let uid = Fingerprint { id_column: "uid".into(), ..first.clone() };
    let text = Fingerprint { id_class: "text".into(), ..first.clone() };
    let hash = Fingerprint { row_hash: true, ..first.clone() };
    for other in [uid, text, hash] {
        assert_eq!(kind(begin(&world, other, allow_changed()).await), ErrorKind::Conflict);
    }
    let elsewhere = Fingerprint { output: "memory://job/elsewhere".into(), ..first };
    assert_eq!(kind(begin(&world, elsewhere, allow_changed()).await), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn one_that_a_former_owner_recorded_too_late_does_not_hold() {
    let world = World::new(true);
    let first = fingerprint(&world.output);
    one_row(&world, &first, BeginOptions::default(), 1).await;
    // Attempt 2 was allowed a change and stopped before it could record it.
    begin_and_leave(&world, &first).await;
    one_row(&world, &first, BeginOptions::default(), 3).await;
    let changed = Fingerprint { version: Some("of the zombie".into()), ..first.clone() };
    let late = serde_json::to_vec(&changed).expect("JSON");
    world.put(&world.checkpoint, "_meta/fingerprints/2.json", late).await;
    assert_eq!(recorded(&world).await, first);
    assert_eq!(kind(begin(&world, changed, BeginOptions::default()).await), ErrorKind::Conflict);
    one_row(&world, &first, BeginOptions::default(), 4).await;
    assert_eq!(recorded(&world).await, first);
}

async fn begin_and_leave(world: &World, now: &Fingerprint) {
    let attempt = attempt(begin(world, now.clone(), BeginOptions::default()).await);
    attempt.end(AttemptState::Failed).await.expect("ends");
}

#[tokio::test]
async fn the_one_that_held_is_named_by_the_list_and_must_be_there() {
    let world = World::new(true);
    let first = fingerprint(&world.output);
    let second = Fingerprint { version: Some("2".into()), ..first.clone() };
    one_row(&world, &first, BeginOptions::default(), 1).await;
    one_row(&world, &second, allow_changed(), 2).await;
    one_row(&world, &second, BeginOptions::default(), 3).await;
    world.remove(&world.checkpoint, "_meta/fingerprints/2.json").await;
    let error = begin(&world, second, BeginOptions::default()).await.expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::BadData);
    assert!(error.to_string().contains("_meta/fingerprints/2.json"), "{error}");
}

#[tokio::test]
async fn a_job_of_which_nothing_counts_is_bound_to_nothing() {
    let world = World::new(true);
    let wrong = Fingerprint { id_column: "uid".into(), id_class: "text".into(), ..fingerprint(&world.output) };
    begin_and_leave(&world, &wrong).await;
    let right = fingerprint(&world.output);
    one_row(&world, &right, BeginOptions::default(), 1).await;
    assert_eq!(recorded(&world).await, right);
    assert!(world.verify().await.ok);
}

#[tokio::test]
async fn a_wrong_column_over_records_of_ray_can_be_put_right() {
    let world = World::new(true);
    world.put(&world.output, "u_000000-0.parquet", parquet("id", &column(&[1, 2]))).await;
    world.put(&world.checkpoint, "u_000000.parquet", parquet("id", &column(&[1, 2]))).await;
    let right = fingerprint(&world.output);
    let wrong = Fingerprint { id_column: "uid".into(), ..right.clone() };
    let error = begin(&world, wrong, BeginOptions::default()).await.expect_err("another column");
    assert_eq!(error.kind(), ErrorKind::BadData);
    assert!(error.to_string().contains("u_000000.parquet"), "{error}");
    let attempt = attempt(begin(&world, right, BeginOptions::default()).await);
    assert_eq!(left(&attempt, &[1, 2, 3]), [3]);
    write_task(&attempt, &[3]).await.expect("writes");
    attempt.finish(true).await.expect("ends");
    assert!(world.verify().await.ok);
    world.holds_once(&[1, 2, 3]).await;
}

#[tokio::test]
async fn a_job_that_does_not_know_its_ids_yet_takes_those_of_its_first_task_and_no_others() {
    let world = World::new(true);
    let unknown = Fingerprint { id_class: String::new(), id_type: String::new(), ..fingerprint(&world.output) };
    let attempt = attempt(begin(&world, unknown, BeginOptions::default()).await);
    let strings: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    write_task(&attempt, &[1]).await.expect("the first");
    let name = attempt.next_task();
    let refused = attempt.record(&name, &strings, TaskPlan::new(Vec::new())).map(drop).expect_err("of another type");
    assert_eq!(refused.kind(), ErrorKind::BadData, "{refused}");
    assert!(refused.to_string().contains("job=integer task=text"), "{refused}");
    write_task(&attempt, &[2]).await.expect("one more of the first's type");
}
