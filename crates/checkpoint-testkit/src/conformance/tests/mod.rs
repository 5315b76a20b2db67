//! The suite on an honest storage, and on liars: each lie must be found by the case that is about it.

mod liar;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use checkpoint_fs::{ListingCache, ListingCacheSettings, MemoryStorage, Storage, StorageRef};

use self::liar::{Liar, Lie};
use super::*;

fn quick() -> Settings {
    Settings { keys: 1200, large: 100_000, racers: 8, rounds: 2, timeout: Duration::from_secs(20), only: None }
}

/// The same storage for whoever opens the same place.
async fn run(wrap: impl Fn(MemoryStorage) -> StorageRef) -> Report {
    let places = Mutex::new(HashMap::new());
    run_all(&quick(), |dir| {
        let fresh = || wrap(MemoryStorage::new(&format!("memory://test/{dir}")));
        let storage = StorageRef::clone(places.lock().expect("whole").entry(dir.clone()).or_insert_with(fresh));
        async move { Ok(storage) }
    })
    .await
}

/// Each client keeps its own listings.
#[tokio::test]
async fn a_storage_that_keeps_listings_fails() {
    let places: Mutex<HashMap<String, StorageRef>> = Mutex::default();
    let report = run_all(&quick(), |dir| {
        let fresh = || -> StorageRef { Arc::new(MemoryStorage::new(&format!("memory://test/{dir}"))) };
        let place = StorageRef::clone(places.lock().expect("whole").entry(dir.clone()).or_insert_with(fresh));
        let storage: StorageRef = Arc::new(ListingCache::new(place, ListingCacheSettings::default()));
        async move { Ok(storage) }
    })
    .await;
    assert_eq!(report.failed(), ["a_listing_sees_what_another_client_did"], "{report}");
}

#[tokio::test]
async fn an_honest_storage_passes() {
    let report = run(|memory| Arc::new(memory)).await.into_result().expect("passes");
    let skipped = report.results().iter().filter(|(_, v)| matches!(v, Verdict::NotApplicable(_))).count();
    assert_eq!((report.results().len(), skipped), (cases().len(), 3), "{report}");
}

#[tokio::test]
async fn a_storage_that_claims_nothing_passes_by_refusing() {
    let report = run(|memory| Arc::new(memory.with_capabilities(Capabilities::none()))).await;
    let report = report.into_result().expect("passes");
    for refusal in [
        "a_storage_that_cannot_create_says_so",
        "a_storage_that_cannot_copy_without_replacing_says_so",
        "a_storage_that_cannot_rename_says_so",
    ] {
        assert_eq!(report.verdict(refusal), Some(&Verdict::Passed), "{refusal}");
    }
    assert_eq!(report.verdict("a_rename_moves_the_object"), Some(&Verdict::NotApplicable("atomic_rename")));
}

#[tokio::test]
async fn a_storage_that_does_what_it_does_not_claim_fails() {
    let report = run(|memory| {
        let mut claims = memory.capabilities().clone();
        claims.write_if_absent = false;
        claims.atomic_rename = false;
        claims.copy_if_absent = false;
        Arc::new(Liar::new(Arc::new(memory), Lie::Claims(claims)))
    })
    .await;
    assert_eq!(
        report.failed(),
        [
            "a_storage_that_cannot_create_says_so",
            "a_storage_that_cannot_copy_without_replacing_says_so",
            "a_storage_that_cannot_rename_says_so"
        ],
        "{report}"
    );
}

#[tokio::test]
async fn a_storage_that_claims_what_it_refuses_fails() {
    let report = run(|memory| {
        let claims = memory.capabilities().clone();
        Arc::new(Liar::new(Arc::new(memory.with_capabilities(Capabilities::none())), Lie::Claims(claims)))
    })
    .await;
    for case in ["creating_refuses_to_replace", "a_copy_refuses_to_replace", "a_rename_moves_the_object"] {
        assert!(report.failed().contains(&case), "{case}: {report}");
    }
}

#[tokio::test]
async fn every_lie_is_found_by_the_case_about_it() {
    for (lie, case) in [
        (Lie::CreateReplaces, "creating_refuses_to_replace"),
        (Lie::CreateLooksFirst, "of_many_creators_exactly_one_wins"),
        (Lie::StreamedCreateReplaces, "a_streamed_creator_refuses_to_replace"),
        (Lie::StreamedCreateReplaces, "streamed_and_whole_creators_share_one_race"),
        (Lie::WritesInPlace, "readers_see_whole_versions_while_an_object_is_replaced"),
        (Lie::CopiesInPlace, "readers_see_whole_versions_while_an_object_is_copied_over"),
        (Lie::CopyReplaces, "a_copy_refuses_to_replace"),
        (Lie::RenameReplaces, "a_rename_refuses_to_replace"),
        (Lie::RenameLooksFirst, "of_many_renames_to_one_name_exactly_one_wins"),
        (Lie::RenameKeepsSource, "a_rename_moves_the_object"),
        (Lie::RenameCopiesAndDeletes, "a_rename_to_its_own_name_changes_nothing"),
        (Lie::StreamsShow, "a_stream_is_invisible_until_it_finishes"),
        (Lie::StreamsShow, "an_aborted_stream_leaves_nothing"),
        (Lie::StreamsShow, "a_dropped_stream_leaves_nothing"),
        (Lie::StreamsLoseTheTail, "large_streams_come_back"),
        (Lie::ForgetsGuards, "a_guard_that_refuses_stops_every_call"),
        (Lie::ForgetsGuards, "a_guard_that_allows_is_asked_and_lets_pass"),
        (Lie::FinishForgetsGuards, "a_stream_whose_right_runs_out_is_not_published"),
        (Lie::FirstPageOnly, "listings_of_many_pages_hold_each_object_once"),
        (Lie::PagesOverlap, "listings_of_many_pages_hold_each_object_once"),
        (Lie::PlainPrefix, "a_directory_is_more_than_a_prefix_of_its_name"),
        (Lie::StartsAtTheStart, "a_listing_starts_after_any_path"),
        (Lie::ListsLate, "a_listing_sees_what_was_written_and_deleted_before"),
        (Lie::ListsBackwards, "listings_come_in_order"),
        (Lie::ListsFlat, "listings_hold_what_is_below_a_directory"),
        (Lie::MissingDirectoryFails, "a_missing_directory_is_empty"),
        (Lie::DecodesNames, "odd_names_are_kept_as_they_are"),
        (Lie::RangesFailAtTheEnd, "ranges_are_cut_at_the_end_of_the_object"),
        (Lie::DirectoriesAreObjects, "a_directory_is_no_object"),
        (Lie::DeletesBelow, "a_delete_takes_one_object_and_no_other"),
        (Lie::DeletingNothingFails, "a_delete_of_nothing_is_no_error"),
        (Lie::OneBatchOnly, "many_are_deleted_over_several_batches"),
        (Lie::NamelessErrors, "a_missing_object_is_not_found"),
        (Lie::WrongSize, "metadata_agrees_wherever_it_comes_from"),
    ] {
        let settings = Settings { only: Some(case.to_owned()), ..quick() };
        let report = run_all(&settings, |dir| {
            let memory = Arc::new(MemoryStorage::new(&format!("memory://test/{dir}")));
            let storage: StorageRef = Arc::new(Liar::new(memory, lie.clone()));
            async move { Ok(storage) }
        })
        .await;
        assert_eq!(report.failed(), [case], "{lie:?} was not found: {report}");
    }
}
