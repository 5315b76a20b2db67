//! A class of IDs as bytes, for the header of a set.

use super::class::IdClass;

/// How deep structs may lie in each other.
const MAX_DEPTH: usize = 64;

/// A tag, and what belongs to it; lengths and counts are of 4 bytes.
pub(super) fn encode(class: Option<&IdClass>) -> Vec<u8> {
    let mut out = Vec::new();
    match class {
        None => out.push(0),
        Some(class) => push(class, &mut out),
    }
    out
}

fn push(class: &IdClass, out: &mut Vec<u8>) {
    match class {
        IdClass::Integer => out.push(1),
        IdClass::Text => out.push(2),
        IdClass::Binary => out.push(3),
        IdClass::Boolean => out.push(4),
        IdClass::Decimal(scale) => out.extend([5, scale.to_le_bytes()[0]]),
        IdClass::Date => out.push(6),
        IdClass::Time => out.push(7),
        IdClass::Timestamp { zoned } => out.extend([8, u8::from(*zoned)]),
        IdClass::Struct(fields) => {
            out.push(9);
            out.extend((fields.len() as u32).to_le_bytes());
            for (name, class) in fields {
                out.extend((name.len() as u32).to_le_bytes());
                out.extend(name.as_bytes());
                push(class, out);
            }
        }
    }
}

/// The class that [`encode`] made these bytes of; the outer `None` for any others.
pub(super) fn decode(bytes: &[u8]) -> Option<Option<IdClass>> {
    if bytes == [0] {
        return Some(None);
    }
    let mut rest = bytes;
    let class = pull(&mut rest, MAX_DEPTH)?;
    rest.is_empty().then_some(Some(class))
}

fn pull(rest: &mut &[u8], depth: usize) -> Option<IdClass> {
    Some(match byte(rest)? {
        1 => IdClass::Integer,
        2 => IdClass::Text,
        3 => IdClass::Binary,
        4 => IdClass::Boolean,
        5 => IdClass::Decimal(i8::from_le_bytes([byte(rest)?])),
        6 => IdClass::Date,
        7 => IdClass::Time,
        8 => IdClass::Timestamp {
            zoned: match byte(rest)? {
                0 => false,
                1 => true,
                _ => return None,
            },
        },
        9 => {
            let (count, depth) = (number(rest)?, depth.checked_sub(1)?);
            let mut fields = Vec::new();
            for _ in 0..count {
                let name = number(rest)?;
                let name = std::str::from_utf8(rest.split_off(..name)?).ok()?.to_owned();
                fields.push((name, pull(rest, depth)?));
            }
            IdClass::Struct(fields)
        }
        _ => return None,
    })
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    rest.split_off_first().copied()
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let bytes: [u8; 4] = rest.split_off(..4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_comes_back_and_nothing_else_is_one() {
        let fields = vec![("a".to_owned(), IdClass::Decimal(-3)), ("ü".to_owned(), IdClass::Boolean)];
        let inner = IdClass::Struct(fields);
        let classes = [
            IdClass::Integer,
            IdClass::Text,
            IdClass::Binary,
            IdClass::Boolean,
            IdClass::Decimal(38),
            IdClass::Date,
            IdClass::Time,
            IdClass::Timestamp { zoned: true },
            IdClass::Timestamp { zoned: false },
            IdClass::Struct(vec![(String::new(), inner), ("b".to_owned(), IdClass::Text)]),
        ];
        for class in classes {
            let bytes = encode(Some(&class));
            assert_eq!(decode(&bytes), Some(Some(class)));
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut]).is_none());
            }
            assert!(decode(&[&bytes[..], &[0]].concat()).is_none());
        }
        assert_eq!(decode(&encode(None)), Some(None));
        let deep = [9, 1, 0, 0, 0, 0, 0, 0, 0].repeat(MAX_DEPTH + 1);
        assert!(decode(&[&deep[..], &[1]].concat()).is_none());
        assert!(decode(&[8, 2]).is_none() && decode(&[10]).is_none());
    }
}
