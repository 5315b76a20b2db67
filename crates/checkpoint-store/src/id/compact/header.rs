//! The start of a buffer: what the set is, and where its parts lie.

use bytes::Bytes;

use super::bits::{MAX_WIDTH, load32, load64, width};
use super::distance::WITHIN;
use super::entry::{ENTRY, Entry, Kind};
use super::{bitmap, packed, runs};
use crate::error::{Error, Result};
use crate::id::class_bytes;
use crate::id::hash::HashKey;
use crate::id::key_map::{KeyMap, Layout};

const MAGIC: [u8; 8] = *b"ckptids\n";
/// The version of the buffer. A set is built again from its records where it is of another.
const VERSION: u32 = 2;
/// Bytes before the class.
const FIXED: usize = 64;
/// Zeros after the last body: a load of 16 bytes that begins in a body stays within the buffer.
const PADDING: usize = 16;
/// The checksum, last of all.
const CHECKSUM: usize = 8;
/// Cells of the index for each partition at the least, so that most hold the start of none.
const CELLS_PER_PARTITION: usize = 8;
/// So many times as many are better, as long as they stay few.
const FEW_CELLS: (usize, usize) = (4, 2048);

/// Where the parts of a buffer lie.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Geometry {
    /// Keys in all.
    pub(super) len: u64,
    /// How many partitions there are.
    pub(super) partitions: usize,
    /// Where the table starts.
    pub(super) table: usize,
    /// Where the index starts.
    pub(super) index: usize,
    /// Cells of the index.
    pub(super) cells: usize,
    /// A key's distance from the first without this many low bits is its cell.
    pub(super) shift: u8,
    /// The first key.
    pub(super) first: u128,
    /// The last key.
    pub(super) last: u128,
    /// Whether distances are of 64 bits and low parts within one load.
    pub(super) narrow: bool,
}

impl Geometry {
    /// Where the bodies start.
    fn bodies(&self) -> usize {
        (self.index + (self.cells + 1) * 4).next_multiple_of(8)
    }
}

/// Bytes before the first body, and the geometry, for a table whose offsets count from the first body.
pub(super) fn write(map: Option<&KeyMap>, entries: &mut [Entry], len: u64) -> Vec<u8> {
    let class = class_bytes::encode(map.map(KeyMap::class));
    let span = entries.last().zip(entries.first()).map_or(0, |(last, first)| last.last - first.first);
    let cells = entries.len() * CELLS_PER_PARTITION;
    let cells = cells.max((cells * FEW_CELLS.0).min(FEW_CELLS.1));
    let shift = width(span).saturating_sub(width(cells as u128));
    let cells = if entries.is_empty() { 0 } else { (span >> shift) as usize + 1 };
    let table = (FIXED + class.len()).next_multiple_of(ENTRY);
    let geometry = Geometry {
        len,
        partitions: entries.len(),
        table,
        index: table + entries.len() * ENTRY,
        cells,
        shift,
        ..Geometry::default()
    };
    let mut out = Vec::with_capacity(geometry.bodies());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    let layout = layout_byte(map.map_or(Layout::Values, KeyMap::layout));
    out.extend_from_slice(&[layout, map.map_or(0, KeyMap::cut), shift, 0]);
    out.extend_from_slice(&map.map(KeyMap::hash_key).unwrap_or_default().to_bytes());
    for number in [len, entries.len() as u64, cells as u64, class.len() as u64] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&class);
    out.resize(table, 0);
    for entry in entries.iter_mut() {
        entry.offset += geometry.bodies();
        entry.write(&mut out);
    }
    if let Some(first) = entries.first().map(|entry| entry.first) {
        let mut before = 0u32;
        for cell in 0..=cells as u128 {
            while entries.get(before as usize).is_some_and(|entry| (entry.first - first) >> shift < cell) {
                before += 1;
            }
            out.extend_from_slice(&before.to_le_bytes());
        }
    } else {
        out.extend_from_slice(&0u32.to_le_bytes());
    }
    out.resize(geometry.bodies(), 0);
    out
}

/// Bytes after the last body, but for the checksum.
pub(super) const TRAILER: [u8; PADDING] = [0; PADDING];

/// The checksum of a buffer without it.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// Reads and checks a buffer; whatever its bytes, what is accepted can be used without a fault.
pub(super) fn read(bytes: &Bytes) -> Result<(Option<KeyMap>, Geometry)> {
    let damaged = |what: &str| {
        Error::bad_data(format!("an ID set is damaged: {what}: bytes={}", bytes.len()))
            .with_hint("build it again from the records")
    };
    let (body, sum) =
        bytes.len().checked_sub(CHECKSUM).map(|at| bytes.split_at(at)).ok_or_else(|| damaged("it is cut"))?;
    if bytes.get(..8) != Some(&MAGIC) {
        return Err(damaged("it is no ID set"));
    }
    let version = load32(bytes, 8);
    if version > VERSION {
        return Err(Error::bad_data(format!("an ID set is of a newer version: version={version} known={VERSION}"))
            .with_hint("use the version of ckpt that wrote it, or a newer one"));
    }
    if checksum(body) != load64(sum, 0) {
        return Err(damaged("its checksum is wrong"));
    }
    if version < VERSION {
        return Err(damaged(&format!("its version is none that counts: version={version}")));
    }
    if body.len() < FIXED + PADDING {
        return Err(damaged("its header is wrong"));
    }
    parse(body).ok_or_else(|| damaged("its parts do not fit together"))
}

/// Where the header says that the parts lie; checks no more than that they can be found.
pub(super) fn geometry(bytes: &[u8]) -> Option<Geometry> {
    let number = |at: usize| usize::try_from(load64(bytes, at)).ok();
    let (partitions, cells, class_len) = (number(40)?, number(48)?, number(56)?);
    let table = FIXED.checked_add(class_len)?.checked_next_multiple_of(ENTRY)?;
    let index = table.checked_add(partitions.checked_mul(ENTRY)?)?;
    index.checked_add(cells.checked_add(1)?.checked_mul(4)?)?.checked_add(8).filter(|end| *end <= bytes.len())?;
    let (first, last) = match partitions {
        0 => (0, 0),
        _ => (Entry::read(bytes, table)?.first, Entry::read(bytes, index - ENTRY)?.last),
    };
    let wide = |entry: Entry| entry.kind == Kind::Packed && entry.width > WITHIN;
    let narrow = last.wrapping_sub(first) <= u128::from(u64::MAX)
        && !(0..partitions).any(|i| Entry::read(bytes, table + i * ENTRY).is_some_and(wide));
    let (len, shift) = (load64(bytes, 32), shift_of(bytes));
    Some(Geometry { len, partitions, table, index, cells, shift, first, last, narrow })
}

fn shift_of(bytes: &[u8]) -> u8 {
    load32(bytes, 12).to_le_bytes()[2]
}

/// The parts of a buffer whose checksum holds.
fn parse(body: &[u8]) -> Option<(Option<KeyMap>, Geometry)> {
    let geometry = geometry(body)?;
    let [layout, cut, shift, zero] = load32(body, 12).to_le_bytes();
    let class_len = usize::try_from(load64(body, 56)).ok()?;
    let class = class_bytes::decode(body.get(FIXED..FIXED + class_len)?)?;
    let end = body.len().checked_sub(PADDING)?;
    if zero != 0 || shift > 127 || geometry.bodies() > end {
        return None;
    }
    let map = match class {
        Some(class) => {
            let map = KeyMap::new(class, layout == 1, HashKey::new(load_key(body)?)).ok()?;
            let cut_is_right = if map.layout() == Layout::Hashed { (1..=MAX_WIDTH).contains(&cut) } else { cut == 0 };
            if layout_byte(map.layout()) != layout || !cut_is_right {
                return None;
            }
            Some(map.with_cut(cut))
        }
        None if geometry.partitions > 0 || layout != 0 || cut != 0 => return None,
        None => None,
    };
    let whole = if geometry.partitions == 0 {
        geometry.len == 0 && geometry.cells == 0 && geometry.bodies() == end
    } else {
        partitions_fit(body, &geometry, end)? && index_fits(body, &geometry)?
    };
    whole.then_some((map, geometry))
}

fn layout_byte(layout: Layout) -> u8 {
    match layout {
        Layout::Values => 0,
        Layout::RowHash => 1,
        Layout::Hashed => 2,
    }
}

fn load_key(body: &[u8]) -> Option<[u8; 16]> {
    body.get(16..)?.first_chunk().copied()
}

/// Whether the partitions follow each other in keys and bytes, each with a body that is right.
fn partitions_fit(body: &[u8], geometry: &Geometry, end: usize) -> Option<bool> {
    let entry = |i: usize| Entry::read(body, geometry.table + i * ENTRY);
    let (mut offset, mut before, mut free) = (geometry.bodies(), 0u64, None::<u128>);
    for i in 0..geometry.partitions {
        let this = entry(i)?;
        let after = if i + 1 < geometry.partitions { entry(i + 1)?.before } else { geometry.len };
        let count = after.checked_sub(this.before)?;
        let in_order = this.first <= this.last && free.is_none_or(|free| free < this.first);
        if this.offset != offset || this.before != before || count == 0 || !in_order {
            return None;
        }
        let size = match this.kind {
            Kind::Bitmap => bitmap::size(this.span())?,
            Kind::Packed => packed::size(&this, count)?,
            Kind::Runs => runs::size(&this)?,
            Kind::Whole => 0,
        };
        offset = offset.checked_add(size).filter(|next| *next <= end)?;
        let valid = match this.kind {
            Kind::Bitmap => bitmap::is_valid(body, &this, count),
            Kind::Packed => packed::is_valid(body, &this, count),
            Kind::Runs => runs::is_valid(body, &this, count),
            Kind::Whole => this.is_whole(count),
        };
        if !valid {
            return None;
        }
        (before, free) = (after, Some(this.last));
    }
    Some(offset == end)
}

/// Whether each cell of the index counts the partitions that start before it.
fn index_fits(body: &[u8], geometry: &Geometry) -> Option<bool> {
    let span = geometry.last - geometry.first;
    if (span >> geometry.shift).checked_add(1)? != geometry.cells as u128 {
        return None;
    }
    let mut before = 0usize;
    for cell in 0..=geometry.cells {
        while before < geometry.partitions
            && (Entry::read(body, geometry.table + before * ENTRY)?.first - geometry.first) >> geometry.shift
                < cell as u128
        {
            before += 1;
        }
        if load32(body, geometry.index + cell * 4) as usize != before {
            return None;
        }
    }
    Some(true)
}
