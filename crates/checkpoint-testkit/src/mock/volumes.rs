//! The tree of catalogs, schemas and volumes that a mock catalog knows.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::keys::Scope;
use super::refusal::Refusal;

/// A catalog: its type, and its schemas.
#[derive(Debug, Default)]
struct Catalog {
    kind: String,
    /// Locations of volumes by their names, by schema.
    schemas: BTreeMap<String, BTreeMap<String, String>>,
}

/// All catalogs by name.
#[derive(Debug, Default)]
pub(crate) struct Volumes(BTreeMap<String, Catalog>);

impl Volumes {
    pub(crate) fn add_catalog(&mut self, name: &str, kind: &str) {
        self.0.entry(name.to_owned()).or_default().kind = kind.to_owned();
    }

    /// Adds a schema, and the catalog where there is none.
    pub(crate) fn add_schema(&mut self, catalog: &str, schema: &str) -> &mut BTreeMap<String, String> {
        let catalog = self
            .0
            .entry(catalog.to_owned())
            .or_insert_with(|| Catalog { kind: "VOLUME".to_owned(), schemas: BTreeMap::new() });
        catalog.schemas.entry(schema.to_owned()).or_default()
    }

    pub(crate) fn add_volume(&mut self, catalog: &str, schema: &str, volume: &str, location: &str) {
        self.add_schema(catalog, schema).insert(volume.to_owned(), location.to_owned());
    }

    /// The answer to an action, but for credentials.
    ///
    /// # Errors
    /// As the API answers: for names that are missing or unknown, and for actions that are none.
    pub(crate) fn describe(&self, action: &str, asked: &Value) -> Result<Value, Refusal> {
        match action {
            "DescribeCatalogNames" => {
                let kinds = asked["Types"].as_array().cloned().unwrap_or_default();
                let wanted =
                    |c: &Catalog| kinds.is_empty() || kinds.iter().any(|kind| kind.as_str() == Some(c.kind.as_str()));
                let names = self.0.iter().filter(|(_, catalog)| wanted(catalog)).map(|(name, _)| name);
                Ok(json!({ "CatalogNames": names_like(names, asked, "CatalogNamePattern") }))
            }
            "DescribeSchemaNames" => {
                let names = self.catalog(asked)?.schemas.keys();
                Ok(json!({ "SchemaNames": names_like(names, asked, "SchemaNamePattern") }))
            }
            "DescribeVolumeNames" => {
                let names = self.schema(asked)?.keys();
                Ok(json!({ "VolumeNames": names_like(names, asked, "VolumeNamePattern") }))
            }
            "DescribeCatalog" => {
                let kind = &self.catalog(asked)?.kind;
                let name = &asked["CatalogName"];
                Ok(
                    json!({ "Catalog": { "Name": name, "Type": kind, "Provider": "", "Comment": "", "Properties": [] } }),
                )
            }
            "DescribeSchema" => {
                self.schema(asked)?;
                Ok(json!({ "Schema": { "Name": asked["SchemaName"], "Comment": "", "Properties": [] } }))
            }
            "DescribeVolume" => {
                let location = self.location(asked)?;
                let name = &asked["VolumeName"];
                Ok(json!({ "Volume": {
                    "Name": name, "Type": "MANAGED", "StorageLocation": location, "Comment": "", "Properties": [],
                } }))
            }
            _ => Err(Refusal::new(200, "InvalidAction", "The requested API is invalid.")),
        }
    }

    /// What credentials for a volume are good for.
    ///
    /// # Errors
    /// As [`Volumes::describe`].
    pub(crate) fn scope(&self, asked: &Value) -> Result<Scope, Refusal> {
        let location = self.location(asked)?;
        let rest = location.split_once("://").map_or(location, |(_, rest)| rest);
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        Ok(Scope {
            bucket: bucket.to_owned(),
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
        })
    }

    fn catalog(&self, asked: &Value) -> Result<&Catalog, Refusal> {
        let name = text(asked, "CatalogName")?;
        self.0.get(name).ok_or_else(|| not_found("ResourceNotFound.CatalogNotFound", "catalog", name))
    }

    fn schema(&self, asked: &Value) -> Result<&BTreeMap<String, String>, Refusal> {
        let name = text(asked, "SchemaName")?;
        self.catalog(asked)?
            .schemas
            .get(name)
            .ok_or_else(|| not_found("ResourceNotFound.SchemaNotFound", "schema", name))
    }

    fn location(&self, asked: &Value) -> Result<&str, Refusal> {
        let name = text(asked, "VolumeName")?;
        let location = self.schema(asked)?.get(name);
        location.map(String::as_str).ok_or_else(|| not_found("ResourceNotFound.VolumeNotFound", "volume", name))
    }
}

fn text<'v>(asked: &'v Value, name: &'static str) -> Result<&'v str, Refusal> {
    let message = || format!("The request is missing a required parameter `{name}`.");
    asked[name].as_str().ok_or_else(|| Refusal::new(200, "MissingParameter", message()))
}

fn not_found(code: &'static str, what: &str, name: &str) -> Refusal {
    Refusal::new(200, code, format!("The {what} {name} does not exist."))
}

/// Names that match a pattern of SQL's LIKE, as the API lists them.
fn names_like<'n>(names: impl Iterator<Item = &'n String>, asked: &Value, pattern: &str) -> Vec<Value> {
    let pattern: Vec<char> = asked[pattern].as_str().unwrap_or("%").chars().collect();
    names
        .filter(|name| is_like(&name.chars().collect::<Vec<char>>(), &pattern))
        .map(|name| json!({ "Name": name }))
        .collect()
}

fn is_like(name: &[char], pattern: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('%', rest)) => (0..=name.len()).any(|at| is_like(&name[at..], rest)),
        Some(('_', rest)) => !name.is_empty() && is_like(&name[1..], rest),
        Some((c, rest)) => name.first() == Some(c) && is_like(&name[1..], rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_described() {
        let mut volumes = Volumes::default();
        volumes.add_catalog("lake", "LAKEHOUSE");
        volumes.add_volume("cat", "db", "raw", "cosn://bkt-1/vol/raw/");
        let asked = json!({ "CatalogName": "cat", "SchemaName": "db", "VolumeName": "raw" });
        let code = |action, asked: Value| volumes.describe(action, &asked).expect_err("refused").code;
        let volume = volumes.describe("DescribeVolume", &asked).expect("there");
        assert_eq!(volume["Volume"]["StorageLocation"], "cosn://bkt-1/vol/raw/");
        assert_eq!(volumes.scope(&asked).expect("there"), Scope { bucket: "bkt-1".into(), prefix: "vol/raw/".into() });
        let lake = volumes.describe("DescribeCatalog", &json!({ "CatalogName": "lake" })).expect("there");
        assert_eq!(lake["Catalog"]["Type"], "LAKEHOUSE");
        let names = volumes.describe("DescribeCatalogNames", &json!({ "Types": ["VOLUME"] })).expect("a list");
        assert_eq!(names["CatalogNames"], json!([{ "Name": "cat" }]));
        assert_eq!(code("DescribeCatalog", json!({ "CatalogName": "x" })), "ResourceNotFound.CatalogNotFound");
        let asked = |schema, volume| json!({ "CatalogName": "cat", "SchemaName": schema, "VolumeName": volume });
        assert_eq!(code("DescribeVolume", asked("x", "raw")), "ResourceNotFound.SchemaNotFound");
        assert_eq!(code("DescribeVolume", asked("db", "x")), "ResourceNotFound.VolumeNotFound");
        assert_eq!(code("DescribeVolume", json!({ "CatalogName": "cat" })), "MissingParameter");
        assert_eq!(code("DropVolume", asked("db", "raw")), "InvalidAction");
    }

    #[test]
    fn patterns() {
        let like = |name: &str, pattern: &str| {
            is_like(&name.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>())
        };
        assert!(like("sales_eu", "sales%") && like("ab", "a_") && like("", "%"));
        assert!(!like("sales", "sale") && !like("b", "a%"));
    }
}
