//! Names: what a store cannot hold is refused, and everything else comes back as it was given.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{CopyOptions, DeleteOptions, ErrorKind, ListOptions, ObjectPath, StatOptions, WriteOptions};

use super::subject::{Subject, done, path};
use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case!(odd_names_are_kept_as_they_are),
    case!(control_characters_in_names_are_kept_or_refused),
    case!(the_longest_names_work),
    case!(names_of_a_thousand_bytes_are_kept_or_refused),
];

/// Names that are escaped, decoded, trimmed, folded or normalised somewhere between here and the store.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a b",
        " lead",
        "trail ",
        "plus+plus",
        "plus plus",
        "%41",
        "A",
        "a",
        "%",
        "100%25",
        "%2F",
        "%2e%2e",
        "hash#1",
        "q?x=1&y=2",
        "semi;colon",
        "a&amp;b",
        "a&b",
        "<tag>",
        "\"quoted\"",
        "it's",
        "back\\slash",
        "pipe|",
        "star*",
        "[x]",
        "{y}",
        "til~de",
        "ca^ret",
        "gr`ave",
        "do$llar",
        "at@",
        "ex!",
        "com,ma",
        "co:lon",
        "k=v",
        ".hidden",
        "..two",
        "...",
        "dot.",
        "-dash",
        "_under",
        "(round)",
        "snow\u{2603}",
        "\u{1F980}",
        "\u{4E2D}\u{6587}",
        // The same letter, composed and decomposed.
        "caf\u{E9}",
        "cafe\u{301}",
        "date=2024-01-01/part 0+1%.parquet",
        "%20/ /+",
        "  two  blanks  ",
        "%252F%2",
        "a%00b",
        "?",
        "#",
        "&lt;![CDATA[x]]>",
        "a'b\"c",
        "\u{5D0}\u{200F}\u{202E}b",
        "\u{FEFF}mark",
        "\u{1F469}\u{200D}\u{1F680}",
        "\u{AC00}/\u{1100}\u{1161}",
        "d/.hidden/..x/y",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push(vec!["deep"; 40].join("/"));
    names
}

/// Names that a store may refuse, since there are stores that would keep another name in their place.
fn may_be_refused(name: &str) -> bool {
    name.contains(['\\', '\u{FEFF}']) || name.split('/').any(|segment| segment.ends_with('.'))
}

/// Writes each name into an object of that name, and gives the names that were not refused. Those of the second
/// list may be, as names that the store cannot hold.
async fn put_each(s: &Subject, mut names: Vec<String>, odder: Vec<String>) -> Result<Vec<String>> {
    s.put_names(&names).await?;
    for name in odder {
        match s.storage.write(&path(&name)?, name.clone().into(), WriteOptions::new()).await {
            Ok(outcome) => {
                done(outcome)?;
                names.push(name);
            }
            // Then nothing of it may show up below.
            refused => super::subject::expect_kind(refused, ErrorKind::Unsupported, "write")
                .with_context(|| format!("name {name:?}"))?,
        }
    }
    Ok(names)
}

/// Expects each name to hold itself, and each call to know it by that name and no other.
async fn expect_names(s: &Subject, names: &[String]) -> Result<()> {
    for name in names {
        s.expect(name, name).await?;
        let meta = s.storage.stat(&path(name)?, StatOptions::new()).await?;
        ensure!(meta.size == name.len() as u64, "stat of {name:?} says size={}", meta.size);
    }
    if s.capabilities().consistent_list {
        expect_listed(&s.list_all().await?, names)?;
        for dir in names.iter().filter_map(|name| path(name).ok()?.parent()).collect::<BTreeSet<ObjectPath>>() {
            let below = |name: &String| path(name).ok()?.strip_prefix(&dir).map(|rest| (name.clone(), rest));
            let expected: BTreeSet<String> = names
                .iter()
                .filter_map(below)
                .map(|(name, rest)| match rest.as_str().split_once('/') {
                    None => name,
                    Some((first, _)) => format!("{}{first}/", &name[..name.len() - rest.as_str().len()]),
                })
                .collect();
            let expected: Vec<String> = expected.into_iter().collect();
            expect_listed(&s.list(dir.as_str(), ListOptions::new()).await?, &expected)
                .with_context(|| format!("one level of {:?}", dir.as_str()))?;
        }
    }
    Ok(())
}

fn expect_listed(listed: &[String], names: &[String]) -> Result<()> {
    let missing: Vec<_> = names.iter().filter(|n| !listed.contains(n)).collect();
    let extra: Vec<_> = listed.iter().filter(|n| !names.contains(n)).collect();
    ensure!(missing.is_empty() && extra.is_empty(), "missing={missing:?} extra={extra:?}");
    Ok(())
}

/// Copies each name to another and back, and deletes all of them, one of three by itself.
async fn move_and_delete(s: &Subject, names: &[String]) -> Result<()> {
    for name in names {
        let (from, to) = (path(name)?, path(&format!("copies/{name}"))?);
        let copied = s.storage.copy(&from, &to, CopyOptions::new()).await;
        done(copied.with_context(|| format!("copy of {name:?}"))?)?;
        s.expect(to.as_str(), name).await?;
    }
    let all = names.iter().map(|name| path(name)).chain(names.iter().map(|name| path(&format!("copies/{name}"))));
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for (number, each) in all.enumerate() {
        if number % 3 == 0 { alone.push(each?) } else { together.push(each?) }
    }
    for each in &alone {
        s.storage.delete(each, DeleteOptions::new()).await.with_context(|| format!("delete of {each:?}"))?;
    }
    let failures = s.storage.delete_many(together.clone(), DeleteOptions::new()).await?;
    ensure!(failures.is_empty(), "not deleted: {failures:?}");
    for each in together.iter().chain(&alone) {
        s.expect_missing(each.as_str()).await.with_context(|| format!("after the delete of {each:?}"))?;
    }
    s.expect_exactly(&[]).await
}

async fn odd_names_are_kept_as_they_are(s: &Subject) -> Result<()> {
    let (odder, names): (Vec<_>, Vec<_>) = odd_names().into_iter().partition(|name| may_be_refused(name));
    let names = put_each(s, names, odder).await?;
    expect_names(s, &names).await?;
    move_and_delete(s, &names).await
}

async fn control_characters_in_names_are_kept_or_refused(s: &Subject) -> Result<()> {
    let odder = [
        "tab\tstop",
        "tab\tstop",
        "a\u{1}b",
        "\u{7}",
        "e\u{1B}[31m",
        "del\u{7F}",
        "c1\u{85}",
        "line\u{2028}",
        "not\u{FFFE}",
        "d\u{2}/x",
    ];
    let names = put_each(s, vec!["plain".to_owned()], odder.map(str::to_owned).to_vec()).await?;
    expect_names(s, &names).await?;
    move_and_delete(s, &names).await
}

async fn the_longest_names_work(s: &Subject) -> Result<()> {
    let longest = s.capabilities().max_segment.min(s.capabilities().max_path);
    for length in [200, longest.min(255)].into_iter().filter(|l| *l <= longest) {
        let name = "n".repeat(length);
        s.put(&name, "long").await?;
        s.expect(&name, "long").await?;
    }
    Ok(())
}

async fn names_of_a_thousand_bytes_are_kept_or_refused(s: &Subject) -> Result<()> {
    let capabilities = s.capabilities();
    let plain = vec!["n+ %".repeat(25); 11].join("/");
    let wide = vec!["\u{4E2D}".repeat(33); 10].join("/");
    let mut kept = Vec::new();
    for name in [plain[..1000].trim_end_matches('/').to_owned(), wide] {
        ensure!((990..=1000).contains(&name.len()), "the name has {} bytes", name.len());
        let fits = name.len() <= capabilities.max_path;
        let answer = s.storage.write(&path(&name)?, name.clone().into(), WriteOptions::new()).await;
        if fits {
            done(answer.context("a name that fits")?)?;
            kept.push(name);
        } else {
            super::subject::expect_kind(answer, ErrorKind::Unsupported, "write")?;
        }
    }
    expect_names(s, &kept).await
}
