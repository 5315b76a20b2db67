//! Buckets and their objects: descriptions, downloads, listings, deletes and copies.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::GcsSettings;
use super::crc32c::crc32c;
use super::fault::Fault;
use super::target::Target;
use super::upload::Session;
use crate::mock::answer::Answer;
use crate::mock::clock::iso;
use crate::mock::request::Arrived;

/// Generations begin here, as if they were microseconds.
const FIRST_GENERATION: u64 = 1_700_000_000_000_000;

/// An object as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    bytes: Bytes,
    crc32c: String,
    generation: u64,
    updated: String,
    /// What the writer said of it: its type, its metadata.
    described: Map<String, Value>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    buckets: BTreeMap<String, BTreeMap<String, Object>>,
    generation: u64,
    pub(crate) sessions: BTreeMap<String, Session>,
    pub(crate) shorten: Option<usize>,
    /// Downloads that are still to be damaged.
    damaged: u32,
    /// The source of the next copy changes before it.
    changes_source: bool,
    /// Copies under way by their tokens: how many bytes are copied.
    copies: BTreeMap<String, usize>,
}

/// The buckets of the service, under one lock: what a request does is done at once.
#[derive(Debug, Default)]
pub(crate) struct Buckets(Mutex<State>);

impl Buckets {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn create(&self, name: &str) {
        self.with(|state| state.buckets.entry(name.to_owned()).or_default().clear());
    }

    pub(crate) fn shorten_next_part(&self, bytes: usize) {
        self.with(|state| state.shorten = Some(bytes));
    }

    pub(crate) fn damage_next_downloads(&self, times: u32) {
        self.with(|state| state.damaged = times);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.with(|state| state.buckets.contains_key(name))
    }

    pub(crate) fn remove(&self, name: &str) {
        self.with(|state| state.buckets.remove(name));
    }

    pub(crate) fn change_source_of_next_copy(&self) {
        self.with(|state| state.changes_source = true);
    }

    pub(crate) fn names(&self, bucket: &str) -> (Vec<String>, usize) {
        self.with(|state| {
            let keys = state.buckets.get(bucket).map(|objects| objects.keys().cloned().collect());
            (keys.unwrap_or_default(), state.sessions.values().filter(|session| session.is_open()).count())
        })
    }

    pub(crate) fn delete(&self, bucket: &str, key: &str) -> Result<Answer, Fault> {
        self.with(|state| match state.objects(bucket)?.remove(key) {
            Some(_) => Ok(Answer::new(204)),
            None => Err(Fault::no_object(bucket, key)),
        })
    }

    /// Answers what is about an object or a listing.
    pub(crate) fn serve(
        &self,
        settings: &GcsSettings,
        request: &Arrived,
        target: &Target,
        now: i64,
    ) -> Result<Answer, Fault> {
        match (request.method.as_str(), &target.key, &target.copy) {
            ("GET", None, None) => self.with(|state| list(state.objects(&target.bucket)?, settings.page, target)),
            ("GET", Some(key), None) if target.get("alt") == Some("media") => {
                self.with(|state| state.download(&target.bucket, key, request)).map_err(Fault::plain)
            }
            ("GET", Some(key), None) => self.with(|state| Ok(described(state.object(&target.bucket, key)?, key))),
            ("DELETE", Some(key), None) => self.delete(&target.bucket, key),
            ("POST", Some(key), Some((to_bucket, to_key))) => {
                let change: Value = serde_json::from_slice(&request.body).map_err(|_| Fault::invalid("Parse Error"))?;
                let step = settings.copied_in_a_step;
                self.with(|state| state.copy((&target.bucket, key), (to_bucket, to_key), target, change, step, now))
            }
            _ => Err(Fault::new(405, "methodNotAllowed", "Method not allowed")),
        }
    }
}

impl State {
    fn objects(&mut self, bucket: &str) -> Result<&mut BTreeMap<String, Object>, Fault> {
        self.buckets.get_mut(bucket).ok_or_else(Fault::no_bucket)
    }

    fn object(&mut self, bucket: &str, key: &str) -> Result<&Object, Fault> {
        self.objects(bucket)?.get(key).ok_or_else(|| Fault::no_object(bucket, key))
    }

    /// A download, damaged where a test wants it so.
    fn download(&mut self, bucket: &str, key: &str, request: &Arrived) -> Result<Answer, Fault> {
        let mut answer = download(self.object(bucket, key)?, request)?;
        if self.damaged > 0 && !answer.body.is_empty() {
            self.damaged -= 1;
            let mut bytes = answer.body.to_vec();
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            answer.body = bytes.into();
        }
        Ok(answer)
    }

    /// Checks the condition of a write: `ifGenerationMatch`, where 0 means that nothing may be there.
    pub(crate) fn check(&mut self, bucket: &str, key: &str, condition: Option<&str>) -> Result<(), Fault> {
        let there = self.objects(bucket)?.get(key).map_or(0, |object| object.generation);
        match condition.map(str::parse::<u64>) {
            None => Ok(()),
            Some(Ok(wanted)) if wanted == there => Ok(()),
            Some(Ok(_)) => Err(Fault::condition()),
            Some(Err(_)) => Err(Fault::invalid("Invalid value for ifGenerationMatch")),
        }
    }

    /// Publishes an object under a condition, when its bytes have the checksum that came with them.
    pub(crate) fn publish(
        &mut self,
        (bucket, key): (&str, &str),
        bytes: Bytes,
        mut described_as: Map<String, Value>,
        condition: Option<&str>,
        now: i64,
    ) -> Result<Answer, Fault> {
        super::target::check_key(key)?;
        self.check(bucket, key, condition)?;
        let sum = crc32c(&bytes);
        if let Some(given) = described_as.remove("crc32c").filter(|given| *given != sum.as_str()) {
            let message = format!("Provided CRC32C {given} doesn't match calculated CRC32C \"{sum}\".");
            return Err(Fault::invalid(message));
        }
        described_as.remove("name");
        self.generation += 1;
        let object = Object {
            bytes,
            crc32c: sum,
            generation: FIRST_GENERATION + self.generation,
            updated: iso(now),
            described: described_as,
        };
        let answer = described(&object, key);
        self.objects(bucket)?.insert(key.to_owned(), object);
        Ok(answer)
    }

    /// Copies, a step at a time.
    fn copy(
        &mut self,
        from: (&str, &str),
        to: (&str, &str),
        target: &Target,
        change: Value,
        step: usize,
        now: i64,
    ) -> Result<Answer, Fault> {
        if std::mem::take(&mut self.changes_source) {
            self.generation += 1;
            let generation = FIRST_GENERATION + self.generation;
            self.objects(from.0)?.entry(from.1.to_owned()).and_modify(|object| object.generation = generation);
        }
        let source = self.object(from.0, from.1)?.clone();
        self.check(from.0, from.1, target.get("ifSourceGenerationMatch"))?;
        self.check(to.0, to.1, target.get("ifGenerationMatch"))?;
        let name = |copied: usize| format!("{}-{copied}-{}", source.generation, to.1);
        let before = match target.get("rewriteToken") {
            None => 0,
            Some(token) => self.copies.remove(token).ok_or_else(|| Fault::invalid("Invalid rewriteToken"))?,
        };
        let copied = before + step;
        let total = source.bytes.len();
        if copied < total {
            let token = name(copied);
            self.copies.insert(token.clone(), copied);
            let said = json!({"kind": "storage#rewriteResponse", "done": false, "rewriteToken": token,
                              "totalBytesRewritten": copied.to_string(), "objectSize": total.to_string()});
            return Ok(document(&said));
        }
        let Value::Object(change) = change else { return Err(Fault::invalid("Parse Error")) };
        // A description that comes along stands in the place of the source's.
        let described_as = if change.is_empty() { source.described.clone() } else { change };
        let answer = self.publish(to, source.bytes, described_as, target.get("ifGenerationMatch"), now)?;
        let resource: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok(document(&json!({"kind": "storage#rewriteResponse", "done": true, "resource": resource,
                            "totalBytesRewritten": total.to_string(), "objectSize": total.to_string()})))
    }
}

fn document(value: &Value) -> Answer {
    Answer { body: value.to_string().into(), ..Answer::new(200) }
        .with("Content-Type", "application/json; charset=UTF-8")
}

fn resource(object: &Object, key: &str) -> Value {
    let mut resource = object.described.clone();
    resource.insert("name".to_owned(), json!(key));
    resource.insert("size".to_owned(), json!(object.bytes.len().to_string()));
    resource.insert("generation".to_owned(), json!(object.generation.to_string()));
    resource.insert("crc32c".to_owned(), json!(object.crc32c));
    resource.insert("updated".to_owned(), json!(object.updated));
    resource.insert("etag".to_owned(), json!(format!("C{}=", object.generation)));
    Value::Object(resource)
}

fn described(object: &Object, key: &str) -> Answer {
    document(&resource(object, key))
}

/// A whole object, or the range that the request asks for.
fn download(object: &Object, request: &Arrived) -> Result<Answer, Fault> {
    let total = object.bytes.len();
    let answer = |status, bytes: Bytes| {
        Answer { body: bytes, ..Answer::new(status) }
            .with("Content-Type", "application/octet-stream")
            .with("x-goog-generation", object.generation.to_string())
            .with("x-goog-hash", format!("crc32c={}", object.crc32c))
    };
    let Some(range) = request.header("range") else { return Ok(answer(200, object.bytes.clone())) };
    let parsed = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let parsed = parsed.and_then(|(first, last)| Some((first.parse::<usize>().ok()?, last.parse::<u64>().ok()?)));
    let Some((first, last)) = parsed else { return Err(Fault::invalid("Invalid range")) };
    if first >= total {
        return Err(Fault::new(416, "requestedRangeNotSatisfiable", "Request range not satisfiable"));
    }
    let end = usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1).min(total);
    let part = answer(206, object.bytes.slice(first..end));
    Ok(part.with("Content-Range", format!("bytes {first}-{}/{total}", end - 1)))
}

/// One page: names in byte order from `startOffset` or the token on.
fn list(objects: &BTreeMap<String, Object>, page: usize, target: &Target) -> Result<Answer, Fault> {
    let prefix = target.get("prefix").unwrap_or_default();
    let delimiter = target.get("delimiter").filter(|text| !text.is_empty());
    let start = match target.get("pageToken") {
        Some(token) => {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).map_err(|_| Fault::invalid("Invalid pageToken"))?;
            String::from_utf8(bytes).map_err(|_| Fault::invalid("Invalid pageToken"))?
        }
        None => target.get("startOffset").unwrap_or_default().to_owned(),
    };
    let (mut items, mut prefixes): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    let mut next = None;
    for (key, object) in objects.range(start..).filter(|(key, _)| key.starts_with(prefix)) {
        let below = &key[prefix.len()..];
        let group = delimiter.and_then(|d| Some(format!("{prefix}{}", &below[..below.find(d)? + d.len()])));
        if group.as_ref().is_some_and(|group| prefixes.last() == Some(group)) {
            continue;
        }
        if items.len() + prefixes.len() == page {
            next = Some(BASE64_URL_SAFE_NO_PAD.encode(key));
            break;
        }
        match group {
            Some(group) => prefixes.push(group),
            None => items.push(resource(object, key)),
        }
    }
    let mut said = json!({"kind": "storage#objects"});
    if !items.is_empty() {
        said["items"] = json!(items);
    }
    if !prefixes.is_empty() {
        said["prefixes"] = json!(prefixes);
    }
    if let Some(token) = next {
        said["nextPageToken"] = json!(token);
    }
    if let (Some(fields), Some(said)) = (target.get("fields"), said.as_object_mut()) {
        said.retain(|name, _| outer(fields).any(|field| field == name));
    }
    Ok(document(&said))
}

/// The fields of the document itself that a `fields` parameter names, without what it says of those below them.
fn outer(fields: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let parts = fields.split(move |letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    });
    parts.map(|part| part.split('(').next().unwrap_or_default())
}
