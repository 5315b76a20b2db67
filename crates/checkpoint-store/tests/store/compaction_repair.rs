//! Damage of a merged record or of the facts beside it, and of the data of one of its tasks: named, and repaired.

use checkpoint_store::{ErrorKind, ParquetIds, RecoverOptions};

use crate::compaction::{IDS, compact, compact_as, records, stopped};
use crate::small_job::{Done, World, committed, files};

#[tokio::test]
async fn damage_is_named_and_repaired() {
    for beside in [false, true] {
        for damage in ["gone", "empty", "cut", "flipped", "another"] {
            let world = World::new(true);
            stopped(&world).await;
            compact(&world).await;
            // One more task, which must stay.
            let more: Vec<i64> = IDS.into_iter().chain(100..104).collect();
            assert_eq!(world.run(&more, true).await.expect("runs"), Done::Processed(4));
            let (parts, sides) = records(&world).await;
            let merged = parts.iter().find(|name| name.contains("-merged-")).expect("a merged record");
            let file = if beside { &sides[0] } else { merged };
            let good = world.get(&world.checkpoint, file).await;
            match damage {
                "gone" => world.remove(&world.checkpoint, file).await,
                "empty" => world.put(&world.checkpoint, file, "").await,
                "cut" => world.put(&world.checkpoint, file, good.slice(..good.len() - 1)).await,
                "flipped" => {
                    let mut bytes = good.to_vec();
                    bytes[20] ^= 1;
                    world.put(&world.checkpoint, file, bytes).await;
                }
                _ => {
                    let other = World::new(true);
                    stopped(&other).await;
                    compact(&other).await;
                    let (parts, sides) = records(&other).await;
                    let name = if beside { &sides[0] } else { &parts[0] };
                    world.put(&world.checkpoint, file, other.get(&other.checkpoint, name).await).await;
                }
            }
            let context = format!("{damage} {file}");
            for error in [
                world.begin().await.map(drop).expect_err("damaged"),
                committed(&world.look()).await.map(drop).expect_err("damaged"),
                compact_as(&world.seen_by(&world.process("a")), Some(&world.output)).await.map(drop).expect_err("too"),
            ] {
                assert_eq!(error.kind(), ErrorKind::BadData, "{context}: {error}");
                assert!(error.to_string().contains(merged.as_str()), "{context}: {error}");
            }
            let found = world.verify().await;
            assert_eq!((found.ok, found.lost_tasks), (false, 5), "{context}: {found:?}");
            let mut repair = RecoverOptions::default();
            repair.repair = true;
            let seen = world.seen_by(&world.process("a"));
            let repaired = checkpoint_store::recover(&seen, &world.output, repair, &ParquetIds);
            let repaired = Box::pin(repaired).await.expect("repairs");
            assert_eq!((repaired.repaired_tasks, repaired.voided, repaired.deleted_files), (5, 5, 10), "{context}");
            if damage != "gone" {
                let aside = files(&world.checkpoint).await;
                let aside = aside.iter().filter(|name| name.starts_with("_meta/damaged/")).count();
                assert_eq!(aside, 2, "{context}: both files are kept for who wants to look");
            }
            assert_eq!(records(&world).await.1, [""; 0], "{context}");
            assert!(world.verify().await.ok, "{context}");
            assert_eq!(world.run(&more, false).await.expect("runs"), Done::Processed(20), "{context}");
            assert_eq!(world.checkpoint_files().await, [""; 0], "{context}");
        }
    }
}

#[tokio::test]
async fn a_repair_of_one_task_writes_its_merged_record_anew() {
    let world = World::new(true);
    stopped(&world).await;
    compact(&world).await;
    let (before, _) = records(&world).await;
    let data = files(&world.output).await.into_iter().find(|name| name.contains("-1-000002-1.")).expect("data");
    world.remove(&world.output, &data).await;
    assert_eq!(world.verify().await.lost_tasks, 1);
    let mut repair = RecoverOptions::default();
    repair.repair = true;
    let seen = world.seen_by(&world.process("a"));
    let repaired = Box::pin(checkpoint_store::recover(&seen, &world.output, repair, &ParquetIds)).await;
    assert_eq!(repaired.expect("repairs").repaired_tasks, 1);
    let (now, beside) = records(&world).await;
    assert_eq!((now.len(), beside.len()), (1, 1));
    assert_ne!(now, before, "no file holds the IDs that do not count any more");
    let rest: Vec<i64> = IDS.into_iter().filter(|id| !(4..8).contains(id)).collect();
    assert_eq!(committed(&world.look()).await.expect("reads"), rest);
    assert!(world.verify().await.ok);
    assert_eq!(world.run(&IDS, true).await.expect("runs"), Done::Processed(4));
    assert!(world.verify().await.ok);
    world.holds_once(&IDS).await;
}
