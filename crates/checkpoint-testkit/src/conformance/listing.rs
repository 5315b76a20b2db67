//! Listings: what is there, once, below the directory asked for and nowhere else.

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{DeleteOptions, ListOptions};
use futures::stream::TryStreamExt;

use super::subject::{Subject, path};
use super::{Case, Needs, case};

const FRESH: Needs = Needs { text: "consistent_list", held: |c| c.consistent_list };
const ORDERED: Needs = Needs { text: "ordered_list", held: |c| c.ordered_list };

pub(super) const CASES: &[Case] = &[
    case!(listings_hold_what_is_below_a_directory),
    case!(a_listing_starts_after_any_path),
    case!(listings_of_many_pages_hold_each_object_once),
    case!(a_directory_is_more_than_a_prefix_of_its_name),
    case!(a_missing_directory_is_empty),
    case!(a_listing_sees_what_was_written_and_deleted_before, FRESH),
    case!(a_listing_sees_what_another_client_did),
    case!(listings_come_in_order, ORDERED),
];

const TREE: [&str; 9] = ["a", "b/1", "b/2", "b/c/1", "b/c/d/1", "b-", "b0", "e/f/g/h", "z"];

fn deep() -> ListOptions {
    ListOptions::new().recursive(true)
}

fn names(list: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = list.iter().map(|n| (*n).to_owned()).collect();
    names.sort();
    names
}

async fn listings_hold_what_is_below_a_directory(s: &Subject) -> Result<()> {
    s.put_names(&names(&TREE)).await?;
    let cases: [(&str, bool, &[&str]); 8] = [
        ("", true, &TREE),
        ("", false, &["a", "b/", "b-", "b0", "e/", "z"]),
        ("b", true, &["b/1", "b/2", "b/c/1", "b/c/d/1"]),
        ("b", false, &["b/1", "b/2", "b/c/"]),
        ("b/c", true, &["b/c/1", "b/c/d/1"]),
        ("b/c", false, &["b/c/1", "b/c/d/"]),
        ("e", false, &["e/f/"]),
        ("e", true, &["e/f/g/h"]),
    ];
    for (prefix, recursive, expected) in cases {
        let listed = s.list(prefix, ListOptions::new().recursive(recursive)).await?;
        ensure!(listed == names(expected), "{prefix:?}, recursive={recursive}: {listed:?}");
    }
    Ok(())
}

async fn a_listing_starts_after_any_path(s: &Subject) -> Result<()> {
    s.put_names(&names(&TREE)).await?;
    for start in ["a", "a0", "b", "b-", "b/1", "b/15", "b/c", "b/c/1", "b/c/d/1", "b/zz", "b0", "e/f", "z", "zz", "0"] {
        for prefix in ["", "b", "b/c"] {
            let below = |name: &&&str| prefix.is_empty() || name.starts_with(&format!("{prefix}/"));
            let expected: Vec<&str> = TREE.iter().filter(below).filter(|n| **n > start).copied().collect();
            let listed = s.list(prefix, deep().start_after(Some(path(start)?))).await?;
            ensure!(listed == names(&expected), "{prefix:?} after {start:?}: {listed:?}, not {expected:?}");
        }
        // Directories count by their own names, without the slash.
        let expected: Vec<&str> =
            ["a", "b/", "b-", "b0", "e/", "z"].into_iter().filter(|n| n.trim_end_matches('/') > start).collect();
        let listed = s.list("", ListOptions::new().start_after(Some(path(start)?))).await?;
        ensure!(listed == names(&expected), "one level after {start:?}: {listed:?}, not {expected:?}");
    }
    Ok(())
}

async fn listings_of_many_pages_hold_each_object_once(s: &Subject) -> Result<()> {
    let many: Vec<String> = (0..s.settings.keys).map(|i| format!("many/{i:06}")).collect();
    s.put_names(&many).await?;
    s.put("other/x", "x").await?;
    let listed = s.list("many", ListOptions::new()).await?;
    ensure!(listed == many, "{} of {} objects are listed", listed.len(), many.len());
    let listed = s.list("many", deep()).await?;
    ensure!(listed == many, "recursively, {} of {} objects are listed", listed.len(), many.len());
    let (before, after) = many.split_at(many.len() / 3);
    let start = before.last().context("some keys")?;
    let listed = s.list("many", deep().start_after(Some(path(start)?))).await?;
    ensure!(listed == after, "after a third, {} of {} objects are listed", listed.len(), after.len());
    Ok(())
}

async fn a_directory_is_more_than_a_prefix_of_its_name(s: &Subject) -> Result<()> {
    s.put_names(&names(&["a/x", "ab/x", "abc", "a.x"])).await?;
    ensure!(s.list("a", deep()).await? == ["a/x"], "below a: {:?}", s.list("a", deep()).await?);
    ensure!(s.list("a", ListOptions::new()).await? == ["a/x"], "in a: {:?}", s.list("a", ListOptions::new()).await?);
    ensure!(s.list("ab", deep()).await? == ["ab/x"], "below ab: {:?}", s.list("ab", deep()).await?);
    ensure!(s.list("abc", deep()).await?.is_empty(), "an object has nothing below it");
    Ok(())
}

async fn a_missing_directory_is_empty(s: &Subject) -> Result<()> {
    ensure!(s.list_all().await?.is_empty(), "a new root is empty");
    s.put("a/x", "x").await?;
    for prefix in ["none", "none/below", "a/none", "a/x/below"] {
        for recursive in [false, true] {
            let listed = s.list(prefix, ListOptions::new().recursive(recursive)).await?;
            ensure!(listed.is_empty(), "{prefix}: {listed:?}");
        }
    }
    Ok(())
}

async fn a_listing_sees_what_was_written_and_deleted_before(s: &Subject) -> Result<()> {
    for i in 0..30 {
        let name = format!("d/{i:02}");
        s.put(&name, "x").await?;
        let listed = s.list("d", deep()).await?;
        ensure!(listed.contains(&name), "{name} was written and is not listed");
        if i % 3 == 0 {
            s.storage.delete(&path(&name)?, DeleteOptions::new()).await?;
            let listed = s.list("d", deep()).await?;
            ensure!(!listed.contains(&name), "{name} was deleted and is listed");
        }
    }
    ensure!(s.list("d", ListOptions::new()).await?.len() == 20, "twenty stay");
    Ok(())
}

async fn listings_come_in_order(s: &Subject) -> Result<()> {
    s.put_names(&names(&TREE)).await?;
    let mut all = s.storage.list(&path("")?, deep());
    let mut last = None;
    while let Some(entry) = all.try_next().await? {
        let next = Some(entry.path().clone());
        ensure!(last < next, "{next:?} came after {last:?}");
        last = next;
    }
    Ok(())
}

/// No listing is kept between calls: what another client commits shows in the next one; where the store's
/// listings lag, in one soon after.
async fn a_listing_sees_what_another_client_did(s: &Subject) -> Result<()> {
    let other = Subject::new(s.other.clone(), s.storage.clone(), s.settings.clone());
    for recursive in [false, true] {
        for round in 0..5 {
            let name = format!("d/{recursive}-{round}");
            ensure!(!lists(s, recursive, &name, false).await?, "{name} is there before it was written");
            other.put(&name, "x").await?;
            ensure!(lists(s, recursive, &name, true).await?, "{name} is missing");
            s.other.delete(&path(&name)?, DeleteOptions::new()).await?;
            ensure!(!lists(s, recursive, &name, false).await?, "{name} is still there");
        }
    }
    Ok(())
}

/// Whether a listing holds a name. One that is not as expected is asked again where the store may lag.
async fn lists(s: &Subject, recursive: bool, name: &String, expected: bool) -> Result<bool> {
    let tries = if s.capabilities().consistent_list { 1 } else { 20 };
    let mut listed = !expected;
    for _ in 0..tries {
        listed = s.list("d", ListOptions::new().recursive(recursive)).await?.contains(name);
        if listed == expected {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(listed)
}
