//! What the processor can do and safe Rust has no name for: fetching ahead, finding a bit by its rank at once, and reading
//! at any place with one comparison.

#![allow(unsafe_code, reason = "intrinsics; each is safe by what its comment says")]

/// Asks for the cache line of `items[at]`, which need not exist; does nothing where there is no such instruction.
#[inline(always)]
pub(in crate::id) fn prefetch<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see, and faults on no address whatever.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

/// Numbers at any place in a buffer. A place from which there is no such number counts as the last that has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loads<'a> {
    bytes: &'a [u8],
    /// The last place with [`Loads::WIDE`] bytes.
    last: usize,
}

impl<'a> Loads<'a> {
    const WIDE: usize = 24;

    /// Those of a buffer.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        const NONE: &[u8] = &[0; Loads::WIDE];
        let bytes = if bytes.len() < Self::WIDE { NONE } else { bytes };
        Self { bytes, last: bytes.len() - Self::WIDE }
    }

    /// The 8 bytes at `at`.
    #[inline(always)]
    pub(super) fn load64(self, at: usize) -> u64 {
        let at = at.min(self.last);
        // SAFETY: there are more bytes from there on.
        u64::from_le_bytes(unsafe { *self.bytes.as_ptr().add(at).cast::<[u8; 8]>() })
    }

    /// The three words at `at`.
    #[inline(always)]
    pub(super) fn three(self, at: usize) -> [u64; 3] {
        let at = at.min(self.last);
        // SAFETY: there are so many bytes from there on.
        unsafe { *self.bytes.as_ptr().add(at).cast::<[[u8; 8]; 3]>() }.map(u64::from_le_bytes)
    }
}

/// Finds ones in a word.
pub(super) trait Select: Copy {
    /// Where the one is that has `rank` ones below it; 64 or more where there are not so many.
    fn select(self, word: u64, rank: u32) -> u32;
}

/// What is run as code for one kind of processor. All of it must be inlined: a call is code for any.
pub(super) trait Body {
    type Answer;

    fn run(self, select: impl Select) -> Self::Answer;
}

/// In plain arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Select for Portable {
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        let (mut at, mut rank, mut rest) = (0, rank, word);
        for width in [32u32, 16, 8, 4, 2, 1] {
            let below = (rest & ((1 << width) - 1)).count_ones();
            let skip = u32::from(below <= rank);
            rank -= below * skip;
            rest >>= width * skip;
            at += width * skip;
        }
        at + u32::from(rest & 1 == 0 || rank > 0) * 64
    }
}

/// By BMI2's `pdep`. Made only where the processor has it, and popcount and `tzcnt` beside it.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) struct Bmi2(());

#[cfg(target_arch = "x86_64")]
impl Bmi2 {
    pub(super) fn detect() -> Option<Self> {
        let has =
            is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    /// Runs `body` as code for such a processor.
    pub(super) fn run<B: Body>(self, body: B) -> B::Answer {
        #[target_feature(enable = "bmi1,bmi2,popcnt")]
        fn with_features<B: Body>(this: Bmi2, body: B) -> B::Answer {
            body.run(this)
        }
        // SAFETY: the features are there, or `self` would not be.
        unsafe { with_features(self, body) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Select for Bmi2 {
    #[inline(always)]
    fn select(self, word: u64, rank: u32) -> u32 {
        // SAFETY: the feature is there, or `self` would not be.
        unsafe { std::arch::x86_64::_pdep_u64(1u64.checked_shl(rank).unwrap_or(0), word) }.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::super::bits::load64;
    use super::*;

    fn check(select: impl Select) {
        let mut word = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..2_000 {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for word in [word, word & (word << 1) & (word >> 7), u64::MAX, 0, 1, 1 << 63, !word | word >> 3] {
                let ones: Vec<u32> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
                for (rank, at) in (0..).zip(&ones) {
                    assert_eq!(select.select(word, rank), *at, "{word:x} {rank}");
                }
                for rank in ones.len() as u32..70 {
                    assert!(select.select(word, rank) >= 64, "{word:x} {rank}");
                }
            }
        }
    }

    #[test]
    fn both_ways_select_the_same() {
        check(Portable);
        #[cfg(target_arch = "x86_64")]
        if let Some(bmi2) = Bmi2::detect() {
            check(bmi2);
        }
    }

    #[test]
    fn numbers_are_those_at_their_place_or_at_the_last() {
        let bytes: Vec<u8> = (0..40).collect();
        let loads = Loads::new(&bytes);
        for at in [0, 1, 9, 16, 17, 40, usize::MAX] {
            let from = at.min(16);
            let expected: [u64; 3] = [0, 8, 16].map(|word| load64(&bytes, from + word));
            assert_eq!((loads.load64(at), loads.three(at)), (expected[0], expected), "{at}");
        }
        for len in [0, 1, 23] {
            assert_eq!(Loads::new(&bytes[..len]).three(5), [0; 3], "{len}");
        }
    }

    #[test]
    fn fetching_ahead_of_nothing_does_nothing() {
        prefetch::<u8>(&[], 0);
        prefetch(&[1], 5);
        prefetch(&[1], 0);
    }
}
