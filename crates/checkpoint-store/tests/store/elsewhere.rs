//! Records that are read elsewhere: the same IDs, whatever becomes of the parts.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use checkpoint_store::{
    Attempt, AttemptState, BeginOptions, Checkpoint, Error, ErrorKind, PartReader, ReadElsewhere, read_part,
};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use crate::small_job::{World, attempt, begin, column, files, parquet, write_task};

const WRITE: &str = "0123456789abcdef012345_0123456789abcdef0123456789abcdef";

/// What a machine makes of a part.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Reads,
    Dies,
    Babbles,
    Cuts,
}

/// Machines, one for each part.
#[derive(Debug)]
struct Machines {
    checkpoint: Checkpoint,
    machines: Vec<Machine>,
    parts: AtomicUsize,
}

impl PartReader for Machines {
    fn read(&self, parts: Vec<String>) -> BoxFuture<'_, Vec<Option<Bytes>>> {
        self.parts.fetch_add(parts.len(), Ordering::Relaxed);
        let each = parts.into_iter().zip(self.machines.iter().cycle()).map(move |(part, machine)| async move {
            let answer = read_part(&self.checkpoint, &part).await.expect("is read");
            match machine {
                Machine::Reads => Some(answer),
                Machine::Dies => None,
                Machine::Babbles => Some(Bytes::from_static(b"\xff\xff\xff\xff\xff\xff\xff\xff of no use")),
                Machine::Cuts => Some(answer.slice(..answer.len() - 3)),
            }
        });
        futures::stream::iter(each).buffered(2).collect().boxed()
    }
}

async fn begin_with(world: &World, parts: usize, machines: &[Machine]) -> (Result<Attempt, Error>, usize) {
    let machines =
        Arc::new(Machines { checkpoint: world.look(), machines: machines.to_vec(), parts: AtomicUsize::new(0) });
    let mut elsewhere = ReadElsewhere::new(machines.clone(), NonZeroUsize::new(parts).expect("some"));
    elsewhere.at_least = 1;
    let mut options = BeginOptions::default();
    options.flat_ids = true;
    options.elsewhere = Some(elsewhere);
    let begun = begin(&world.look(), &world.output, options).await;
    (begun.map(|begun| attempt(Ok(begun))), machines.parts.load(Ordering::Relaxed))
}

/// Records of Ray's and of ours, closed or not, with 100 IDs each.
async fn records(world: &World, closed: bool) -> Vec<i64> {
    for number in 0..10 {
        let ids: Vec<i64> = (0..100).map(|n| number * 1000 + n).collect();
        let bytes = parquet("id", &column(&ids));
        world.put(&world.output, &format!("{WRITE}_{number:06}-0.parquet"), bytes.clone()).await;
        world.put(&world.checkpoint, &format!("{WRITE}_{number:06}.parquet"), bytes).await;
    }
    let first = world.attempt().await;
    for number in 10..20 {
        let ids: Vec<i64> = (0..100).map(|n| number * 1000 + n).collect();
        write_task(&first, &ids).await.expect("writes");
    }
    first.end(AttemptState::Failed).await.expect("ends");
    if closed {
        world.attempt().await.end(AttemptState::Failed).await.expect("ends");
    }
    (0..20).flat_map(|number| (0..100).map(move |n| number * 1000 + n)).collect()
}

fn holds(attempt: &Attempt, ids: &[i64]) {
    assert_eq!((attempt.ids().len(), attempt.rows()), (ids.len() as u64, ids.len() as u64));
    let found = attempt.ids().contains(&column(ids)).expect("asks");
    assert!(found.iter().all(|one| one == Some(true)));
    assert!(attempt.ids().buffer().is_some());
}

#[tokio::test]
async fn the_ids_are_the_same_however_many_parts_there_are() {
    for closed in [false, true] {
        for parts in [1, 3, 1000] {
            let world = World::new(true);
            let ids = records(&world, closed).await;
            let (begun, asked) = begin_with(&world, parts, &[Machine::Reads]).await;
            let begun = begun.expect("begins");
            assert_eq!(asked, parts.min(20), "a record is in one part");
            holds(&begun, &ids);
            begun.finish(false).await.expect("ends");
            assert_eq!(world.checkpoint_files().await, [""; 0]);
            let mark = files(&world.output).await.into_iter().find(|file| file.starts_with("_CHECKPOINT_COMPLETE-"));
            let mark = world.get(&world.output, &mark.expect("a mark")).await;
            let mark: serde_json::Value = serde_json::from_slice(&mark).expect("JSON");
            assert_eq!(mark["data_files"].as_array().map(Vec::len), Some(30), "those of records that others read, too");
        }
    }
}

#[tokio::test]
async fn a_part_that_is_lost_or_damaged_on_its_way_is_read_here() {
    for machine in [Machine::Dies, Machine::Babbles, Machine::Cuts] {
        let world = World::new(true);
        let ids = records(&world, false).await;
        let (begun, _) = begin_with(&world, 4, &[Machine::Reads, machine]).await;
        holds(&begun.expect("begins"), &ids);
    }
}

#[tokio::test]
async fn damage_is_named_as_when_it_is_read_here() {
    let strings: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["a"]));
    for damage in [Bytes::new(), parquet("other", &column(&[1])), parquet("id", &strings)] {
        let world = World::new(true);
        records(&world, false).await;
        let record = format!("{WRITE}_000007.parquet");
        world.put(&world.checkpoint, &record, damage).await;
        let (begun, asked) = begin_with(&world, 4, &[Machine::Reads]).await;
        let error = begun.expect_err("damaged");
        assert!(error.kind() == ErrorKind::BadData && error.to_string().contains(&record), "{error}");
        assert!(asked > 1);
    }
}

#[tokio::test]
async fn what_is_no_part_is_refused() {
    let world = World::new(true);
    for text in ["", "{}", "[1]"] {
        let error = read_part(&world.look(), text).await.expect_err("no part");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}
