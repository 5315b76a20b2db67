//! Keys of every shape: what is in, what is not, how many, and in which stretches.

use super::*;
use crate::id::compact::cpu::Portable;
use crate::id::compact::probe::answers;

/// Sets of keys that differ in how they lie, by name.
fn shapes(rng: &mut StdRng) -> Vec<(&'static str, BTreeSet<u128>)> {
    let mut shapes: Vec<(&'static str, BTreeSet<u128>)> = vec![
        ("one", [77].into()),
        ("one at zero", [0].into()),
        ("one at the end", [u128::MAX].into()),
        ("both ends", [0, u128::MAX].into()),
        ("two", [1 << 90, (1 << 90) + 1].into()),
        ("dense", (500..3_000).collect()),
        ("dense and long", (0..200_000).collect()),
        ("every third", (0..90_000).step_by(3).collect()),
    ];
    let mut of = |name, count: usize, key: &mut dyn FnMut(&mut StdRng) -> u128| {
        shapes.push((name, (0..count).map(|_| key(rng)).collect()));
    };
    of("random in 64 bits", 150_000, &mut |rng| rng.random::<u64>().into());
    of("random in 96 bits", 150_000, &mut |rng| rng.random::<u128>() >> 32);
    of("random in 128 bits", 70_000, &mut |rng| rng.random());
    of("few", 5, &mut |rng| rng.random::<u64>().into());
    of("nine in ten", 500_000, &mut |rng| rng.random_range(0..200_000));
    of("one in two", 70_000, &mut |rng| rng.random_range(0..100_000));
    of("one in a hundred", 20_000, &mut |rng| rng.random_range(0..2_000_000));
    of("clusters", 60_000, &mut |rng| (rng.random_range(0u128..9) << 80) + rng.random_range(0u128..70_000));
    of("small clusters", 60_000, &mut |rng| (rng.random_range(0u128..4_000) << 50) + rng.random_range(0u128..40));
    of("one dense bucket", 66_000, &mut |rng| match rng.random_range(0..3_000) {
        0 => rng.random_range(0u128..1 << 60),
        _ => (1 << 59) + rng.random_range(0u128..400_000),
    });
    of("ever farther", 4_000, &mut |rng| rng.random::<u128>() >> rng.random_range(0..128));
    // Long runs, with short ones strewn among them, and one after the other.
    let mut mixed = BTreeSet::new();
    let mut at = 5u128;
    for i in 0..300 {
        let long = matches!(i % 40, 0..=9) || rng.random_bool(0.2);
        let length = if long { rng.random_range(1_000..3_000) } else { rng.random_range(1..60) };
        mixed.extend(at..at + length);
        at += length + rng.random_range(1..5_000);
    }
    shapes.push(("runs long and short", mixed));
    let mut long = BTreeSet::new();
    for i in 0..200u128 {
        long.extend((i << 70)..(i << 70) + 1_500);
    }
    shapes.push(("runs far apart", long));
    let mut whole = BTreeSet::new();
    let mut at = 0u128;
    for i in 0..40 {
        let length = match i % 8 {
            0 => 16_384,
            3 => 16_383,
            5 => 70_000,
            6 => 2_000,
            _ => rng.random_range(1..60),
        };
        whole.extend(at..at + length);
        at += length + rng.random_range(1..500);
    }
    shapes.push(("runs that are partitions", whole));
    shapes
}

/// Keys around those that are there, around the ends of partitions, and anywhere.
fn probes(set: &CompactIdSet, keys: &BTreeSet<u128>, rng: &mut StdRng) -> Vec<u128> {
    let step = keys.len() / 5_000 + 1;
    let mut probes: Vec<u128> = keys.iter().step_by(step).copied().collect();
    probes.extend(set.partitions().take(500).flat_map(|(first, last, _)| [first, last]));
    let near = probes.clone();
    probes.extend(near.iter().flat_map(|key| [key.wrapping_add(1), key.wrapping_sub(1)]));
    probes.extend([0, 1, u128::MAX, u128::MAX - 1, 1 << 127]);
    let (first, last) = (*keys.first().unwrap(), *keys.last().unwrap());
    probes.extend((0..5_000).map(|_| rng.random_range(first..=last)));
    // In order, for what remembers its last answer; and shuffled.
    probes.sort_unstable();
    let mut shuffled = probes.clone();
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, rng.random_range(0..=i));
    }
    probes.extend(shuffled);
    probes
}

#[test]
fn what_was_put_in_is_there_and_nothing_else() {
    let mut rng = generator(11);
    for (name, keys) in shapes(&mut rng) {
        let set = set_of(&value_map(false), &keys);
        assert_eq!(set.len(), keys.len() as u64, "{name}");
        let probes = probes(&set, &keys, &mut rng);
        for (key, hit) in probes.iter().zip(hits(&set, &probes)) {
            assert_eq!(hit, keys.contains(key), "{name}: {key}");
        }
        // A processor without the instructions, and keys that are taken for wider than they are, answer the same.
        let fill = |start: usize, out: &mut [u128]| out.copy_from_slice(&probes[start..start + out.len()]);
        let mut ways = vec![answers::<u128>(&set.view(), probes.len(), fill, Portable)];
        if set.geometry.narrow {
            ways.push(answers::<u64>(&set.view(), probes.len(), fill, Portable));
        }
        for words in ways {
            for (row, key) in probes.iter().enumerate() {
                assert_eq!(words[row / 64] >> (row % 64) & 1 == 1, keys.contains(key), "{name}: {key}");
            }
        }
    }
}

#[test]
fn ranges_are_counted() {
    let mut rng = generator(12);
    for (name, keys) in shapes(&mut rng) {
        let set = set_of(&value_map(false), &keys);
        let sorted: Vec<u128> = keys.iter().copied().collect();
        let before = |key: u128| sorted.partition_point(|k| *k < key) as u64;
        let mut ends = probes(&set, &keys, &mut rng);
        ends.truncate(4_000);
        for pair in ends.chunks_exact(2) {
            let (first, last) = (pair[0], pair[1]);
            let expected =
                if first > last { 0 } else { last.checked_add(1).map_or(sorted.len() as u64, before) - before(first) };
            assert_eq!(set.view().count_between(first, last), expected, "{name}: {first} {last}");
        }
    }
}

/// The stretches of keys that follow each other.
fn stretches(keys: impl Iterator<Item = u128>) -> Vec<(u128, u128)> {
    let mut out: Vec<(u128, u128)> = Vec::new();
    for key in keys {
        match out.last_mut() {
            Some(open) if open.1.checked_add(1) == Some(key) => open.1 = key,
            _ => out.push((key, key)),
        }
    }
    out
}

#[test]
fn stretches_come_back_from_any_range() {
    let mut rng = generator(13);
    for (name, keys) in shapes(&mut rng) {
        let set = set_of(&value_map(false), &keys);
        assert!(set.intervals(0, u128::MAX).eq(stretches(keys.iter().copied())), "{name}");
        let counted: u64 = set.partitions().map(|(_, _, count)| count).sum();
        assert_eq!(counted, keys.len() as u64, "{name}");
        let ends = probes(&set, &keys, &mut rng);
        for _ in 0..20 {
            let (a, b) = (ends[rng.random_range(0..ends.len())], ends[rng.random_range(0..ends.len())]);
            let (from, to) = (a.min(b), a.max(b));
            assert!(set.intervals(from, to).eq(stretches(keys.range(from..=to).copied())), "{name}: {from} {to}");
            assert_eq!(set.intervals(to, from).next().is_some(), from == to && keys.contains(&from), "{name}");
        }
    }
}

#[test]
fn the_same_keys_make_the_same_bytes_however_they_came() {
    let mut rng = generator(14);
    for (name, keys) in shapes(&mut rng) {
        let map = value_map(false);
        let set = set_of(&map, &keys);
        let mut whole = Encoder::new(&map);
        stretches(keys.iter().copied()).into_iter().for_each(|(first, last)| whole.push(first, last));
        assert_eq!(whole.finish().unwrap().as_bytes(), set.as_bytes(), "{name}");
        let mut pieces = Encoder::new(&map);
        for (first, last) in stretches(keys.iter().copied()) {
            let middle = rng.random_range(first..=last);
            pieces.push(first, middle);
            if middle < last {
                pieces.push(middle + 1, last);
            }
        }
        assert_eq!(pieces.finish().unwrap().as_bytes(), set.as_bytes(), "{name}");
        let again = CompactIdSet::from_bytes(set.as_bytes().clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut copied = Encoder::new(&map);
        again.intervals(0, u128::MAX).for_each(|(first, last)| copied.push(first, last));
        assert_eq!(copied.finish().unwrap().as_bytes(), set.as_bytes(), "{name}");
    }
}

#[test]
fn keys_that_do_not_ascend_are_refused() {
    let pushed = |stretches: &[(u128, u128)]| {
        let mut encoder = Encoder::new(&value_map(false));
        stretches.iter().for_each(|(first, last)| encoder.push(*first, *last));
        encoder.finish().map(|set| set.len())
    };
    assert_eq!(pushed(&[]).unwrap(), 0);
    assert_eq!(pushed(&[(1, 5), (6, 6), (8, u128::from(u64::MAX))]).unwrap(), u64::MAX - 1);
    assert_eq!(pushed(&[(u128::MAX - 1, u128::MAX)]).unwrap(), 2);
    for wrong in [
        &[(5, 6), (6, 7)][..],
        &[(5, 6), (1, 2)],
        &[(2, 1)],
        &[(7, 7), (7, 7)],
        &[(u128::MAX, u128::MAX), (0, 0)],
        &[(0, 1 << 65)],
        &[(0, u128::from(u64::MAX)), (1 << 70, (1 << 70) + 5)],
    ] {
        assert_eq!(pushed(wrong).unwrap_err().kind(), crate::ErrorKind::BadData, "{wrong:?}");
    }
}

#[test]
fn random_keys_take_few_bits_more_than_they_must() {
    // Those of narrow keys are found by a finer directory.
    for (bits, limit) in [(64u32, 0.8), (96, 0.31)] {
        let mut rng = generator(15);
        let keys: BTreeSet<u128> = (0..200_000).map(|_| rng.random::<u128>() >> (128 - bits)).collect();
        let set = set_of(&value_map(false), &keys);
        let each = set.as_bytes().len() as f64 * 8.0 / keys.len() as f64;
        let least = f64::from(bits) - (keys.len() as f64).log2() + 2.0;
        assert!(each < least + limit + 0.45, "{each} bits, of {least}");
    }
}

#[test]
fn what_is_dense_takes_next_to_nothing() {
    let set = set_of(&value_map(false), &(0..1_000_000).collect());
    assert!(set.as_bytes().len() < 1_000, "{}", set.as_bytes().len());
    let holes: BTreeSet<u128> = (0..1_000_000).filter(|i| i % 10 != 3).collect();
    let each = set_of(&value_map(false), &holes).as_bytes().len() as f64 * 8.0 / holes.len() as f64;
    assert!(each < 1.2, "{each} bits");
}
