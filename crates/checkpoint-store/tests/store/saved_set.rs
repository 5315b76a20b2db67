//! The saved set of the IDs that count: a cache that the next start reads in place of the records.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkpoint_fs::{ObjectPath, StorageRef};
use checkpoint_store::{Attempt, AttemptState, BeginOptions, Checkpoint, ClosedList, ErrorKind};
use checkpoint_testkit::{Fault, FaultPlan, FaultyStorage, Operation, Rule};

use crate::compaction::{IDS, closed_list, compact, compact_as, five, says_the_same, stopped};
use crate::compaction_deaths::merging;
use crate::small_job::{Done, World, attempt, begin, files, kind, left, write_task};

/// A start over storages that count what is read of the record files and of the saved set.
async fn reads_of_a_start(world: &World) -> (Vec<String>, Attempt) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = {
        let seen = seen.clone();
        move |path: &ObjectPath| {
            seen.lock().expect("not poisoned").push(path.to_string());
            false
        }
    };
    let plan = FaultPlan::new().with(Rule::new(Operation::Read, Fault::Delay(Duration::ZERO)).path(look));
    let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan));
    let checkpoint = Checkpoint::new(storage, world.process("a"));
    let owner = attempt(begin(&checkpoint, &world.output, BeginOptions::default()).await);
    let read = seen.lock().expect("not poisoned").clone();
    let of_records = |name: &&String| !name.contains('/') || name.starts_with("_meta/merged/");
    (read.iter().filter(of_records).cloned().collect(), owner)
}

#[tokio::test]
async fn the_next_start_reads_the_saved_set_and_what_is_newer() {
    let world = World::new(true);
    stopped(&world).await;
    compact(&world).await;
    let saved = |list: &ClosedList| list.saved.clone().map(|saved| format!("_meta/merged/{}.ids", saved.name));
    let set = saved(&closed_list(&world, 2).await).expect("a saved set");
    let (read, owner) = reads_of_a_start(&world).await;
    assert_eq!(read, std::slice::from_ref(&set), "one read");
    assert_eq!((owner.ids().len(), left(&owner, &IDS)), (20, vec![]));
    write_task(&owner, &[100, 101]).await.expect("writes");
    owner.end(AttemptState::Failed).await.expect("ends");
    assert_eq!(saved(&closed_list(&world, 3).await), Some(set.clone()), "it goes from list to list");
    // What is newer is read besides, and what the sums say is right.
    let (read, owner) = reads_of_a_start(&world).await;
    assert_eq!(read.len(), 2, "{read:?}");
    assert!(read.contains(&set));
    assert_eq!(owner.ids().len(), 22);
    owner.end(AttemptState::Failed).await.expect("ends");
    assert_eq!(closed_list(&world, 4).await.rows, 22);
    assert!(world.verify().await.ok);
    // The next compaction replaces it.
    compact(&world).await;
    let next = saved(&closed_list(&world, 5).await).expect("a saved set");
    let sets: Vec<String> = files(&world.checkpoint).await.into_iter().filter(|name| name.ends_with(".ids")).collect();
    assert_eq!(sets, std::slice::from_ref(&next));
    assert_ne!(next, set);
    // The end knows the data files of tasks that were not read.
    let ids: Vec<i64> = IDS.into_iter().chain([100, 101]).collect();
    assert_eq!(world.run(&ids, false).await.expect("ends"), Done::Processed(0));
    let data: Vec<String> = files(&world.output).await;
    let mark = data.iter().find(|name| name.starts_with("_CHECKPOINT_COMPLETE-")).expect("a mark");
    let mark = String::from_utf8(world.get(&world.output, mark).await.to_vec()).expect("text");
    assert!(data.iter().filter(|name| name.ends_with(".parquet")).all(|file| mark.contains(file.as_str())));
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

/// Records that a start need not read, and merges all the same: the end still knows their data files, each once.
#[tokio::test]
async fn the_end_knows_the_data_files_of_what_was_merged_unread() {
    let world = World::new(true);
    stopped(&world).await;
    // One that the compaction rolls forward, so that the set has its IDs and its record stays as it is.
    world.leave_pending(&[100, 101]).await;
    assert_eq!(compact(&world).await.records_after, 2);
    let owner = world.attempt().await;
    write_task(&owner, &[102, 103]).await.expect("writes");
    owner.end(AttemptState::Failed).await.expect("ends");
    let before = closed_list(&world, 4).await;
    assert_eq!(before.saved.expect("a saved set").records.len(), 2);
    let owner = merging(&world.seen_by(&world.process("a")), &world.output).await.expect("begins");
    let after = closed_list(&world, 5).await;
    assert_ne!(after.merged[0].name, before.merged[0].name, "everything is merged anew");
    owner.finish(false).await.expect("ends");
    let data = files(&world.output).await;
    let mark = data.iter().find(|name| name.starts_with("_CHECKPOINT_COMPLETE-")).expect("a mark");
    let mark: serde_json::Value = serde_json::from_slice(&world.get(&world.output, mark).await).expect("JSON");
    let named = mark["data_files"].as_array().expect("a list").iter().map(|file| file["name"].as_str().expect("text"));
    let mut named: Vec<&str> = named.collect();
    named.sort_unstable();
    let found: Vec<&String> = data.iter().filter(|name| name.ends_with(".parquet")).collect();
    assert_eq!(named, found);
    assert_eq!(world.checkpoint_files().await, [""; 0]);
}

#[tokio::test]
async fn a_saved_set_that_is_not_exactly_that_is_not_used() {
    for damage in ["gone", "empty", "cut", "flipped", "another", "record gone", "record cut"] {
        let world = World::new(true);
        stopped(&world).await;
        compact(&world).await;
        let set = closed_list(&world, 2).await.saved.expect("a saved set");
        let path = format!("_meta/merged/{}.ids", set.name);
        let record = format!("{}.parquet", set.records[0].name);
        let good = world.get(&world.checkpoint, &path).await;
        match damage {
            "gone" => world.remove(&world.checkpoint, &path).await,
            "empty" => world.put(&world.checkpoint, &path, "").await,
            "cut" => world.put(&world.checkpoint, &path, good.slice(..good.len() - 1)).await,
            "flipped" => {
                let mut bytes = good.to_vec();
                bytes[good.len() / 2] ^= 1;
                world.put(&world.checkpoint, &path, bytes).await;
            }
            "another" => {
                // Whole, of the same size, and of other IDs: only its checksum tells.
                let other = World::new(true);
                let owner = other.attempt().await;
                for ids in five() {
                    let shifted: Vec<i64> = ids.iter().map(|id| id + 1).collect();
                    write_task(&owner, &shifted).await.expect("writes");
                }
                owner.end(AttemptState::Failed).await.expect("ends");
                compact(&other).await;
                let set = closed_list(&other, 1).await.saved.expect("a saved set");
                let bytes = other.get(&other.checkpoint, &format!("_meta/merged/{}.ids", set.name)).await;
                assert_eq!(bytes.len(), good.len());
                world.put(&world.checkpoint, &path, bytes).await;
            }
            "record gone" => world.remove(&world.checkpoint, &record).await,
            _ => {
                let bytes = world.get(&world.checkpoint, &record).await;
                world.put(&world.checkpoint, &record, bytes.slice(..bytes.len() - 1)).await;
            }
        }
        if damage.starts_with("record") {
            assert_eq!(kind(world.begin().await.map(drop)), ErrorKind::BadData, "{damage}");
            continue;
        }
        says_the_same(&world, damage).await;
        let (read, owner) = reads_of_a_start(&world).await;
        assert!(read.contains(&record), "{damage}: {read:?}");
        assert_eq!((owner.ids().len(), left(&owner, &IDS)), (20, vec![]), "{damage}");
        owner.end(AttemptState::Failed).await.expect("ends");
        assert_eq!(closed_list(&world, 3).await.saved, None, "{damage}: nobody tries again");
        assert!(files(&world.checkpoint).await.iter().all(|name| !name.ends_with(".ids")), "{damage}");
        assert!(world.verify().await.ok, "{damage}");
        compact(&world).await;
        assert!(closed_list(&world, 4).await.saved.is_some(), "{damage}: made anew");
    }
}

#[tokio::test]
async fn a_set_that_cannot_be_saved_costs_no_more_than_the_reads() {
    let world = World::new(true);
    stopped(&world).await;
    let refused = Fault::Refuse(checkpoint_fs::ErrorKind::Unsupported);
    let sets = |path: &ObjectPath| path.name().ends_with(".ids");
    let plan = FaultPlan::new().with(Rule::new(Operation::Write, refused).path(sets));
    let storage: StorageRef = Arc::new(FaultyStorage::new(world.checkpoint.clone(), plan.clone()));
    let checkpoint = Checkpoint::new(storage, world.process("a"));
    let report = compact_as(&checkpoint, Some(&world.output)).await.expect("compacts");
    assert_eq!((report.records_after, plan.struck().len()), (1, 1));
    assert_eq!(closed_list(&world, 2).await.saved, None);
    says_the_same(&world, "without a set").await;
    let (_, owner) = reads_of_a_start(&world).await;
    assert_eq!((owner.ids().len(), left(&owner, &IDS)), (20, vec![]));
}
