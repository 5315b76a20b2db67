//! The catalog: what it is asked about a volume, and what its answers must hold.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::config::TclakeConfig;
use super::dialect::{ApiDialect, response};
use super::place::Place;
use super::tc3::{SIGNED_HEADERS, Tc3};
use super::volume::VolumeName;
use crate::credentials::{CredentialCache, Credentials, StaticCredentials};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::transport::{AnswerForm, Call, Request, RetryPolicy, Transport, TransportParts, WallClock};

const SERVICE: &str = "tccatalog";
const VERSION: &str = "2024-10-24";
/// The type of the catalogs that hold volumes.
const VOLUME_TYPE: &str = "VOLUME";
/// How long the service may be silent; the transport is more patient with documents.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(7_500);
/// How long one question may take with all its attempts.
const DEADLINE: Duration = Duration::from_secs(60);
const CONCURRENCY: usize = 4;
/// How long credentials are used for whose end the catalog does not say.
const UNKNOWN_LIFE: Duration = Duration::from_secs(1_800);

/// Asks one catalog service. A question is repeated when the service is busy or unreachable, for a
/// minute at most; each names the volume in its errors.
pub(super) struct Catalog {
    transport: Transport,
    clock: Arc<dyn WallClock>,
    url: String,
    region: String,
    deadline: Duration,
}

impl Catalog {
    /// A client with connections of its own. Sends nothing.
    ///
    /// # Errors
    /// `Unauthenticated` without credentials, `InvalidConfig` when the HTTP client cannot be set up.
    pub(super) fn new(config: &TclakeConfig, clock: Arc<dyn WallClock>, retry: RetryPolicy) -> Result<Self> {
        if config.asks_in_the_open() {
            let url = &config.endpoint.value;
            tracing::warn!(
                url,
                "the catalog is asked without TLS: anyone on the way can read the credentials it gives"
            );
        }
        let fixed = StaticCredentials::new(config.require_credentials()?.clone());
        let transport = Transport::new(TransportParts {
            client: config.client.build()?,
            credentials: CredentialCache::new(Arc::new(fixed), Arc::clone(&clock)),
            signer: Arc::new(Tc3 { service: SERVICE, signed_headers: SIGNED_HEADERS }),
            dialect: Arc::new(ApiDialect),
            clock: Arc::clone(&clock),
            retry,
            attempt_timeout: ATTEMPT_TIMEOUT,
            concurrency: CONCURRENCY,
        });
        let (url, region) = (config.endpoint.value.clone(), config.region.value.clone());
        Ok(Self { transport, clock, url, region, deadline: DEADLINE })
    }

    #[cfg(test)]
    pub(super) fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where a volume lies: two requests, and one more to say what is missing.
    ///
    /// # Errors
    /// `NotFound` that names what does not exist, `InvalidConfig` for a catalog that holds no files, and
    /// what [`Place::parse`] says of the location.
    pub(super) async fn place(&self, name: &VolumeName) -> Result<Place> {
        const OPERATION: &str = "open";
        let asked: DescribeCatalog = self.ask("DescribeCatalog", OPERATION, name).await?;
        let kind = asked.catalog.and_then(|c| c.kind).unwrap_or_default();
        if !kind.eq_ignore_ascii_case(VOLUME_TYPE) {
            let catalog = &name.catalog;
            let message = format!("only catalogs of type {VOLUME_TYPE} hold files: catalog={catalog:?} type={kind:?}");
            return Err(named(Error::invalid_config(message), OPERATION, name).with_hint(format!(
                "name a catalog of type {VOLUME_TYPE}; tables of the others are read through their own engines"
            )));
        }
        let asked: DescribeVolume = self.ask("DescribeVolume", OPERATION, name).await?;
        let Some(location) = asked.volume.and_then(|v| v.storage_location).filter(|l| !l.is_empty()) else {
            return Err(incomplete("DescribeVolume", "StorageLocation", OPERATION, name));
        };
        Place::parse(&location).map_err(|e| named(e, OPERATION, name))
    }

    /// Temporary credentials for the volume's place: one request.
    ///
    /// # Errors
    /// What the service refuses with, and `Corrupt` for an answer without a whole set of keys.
    pub(super) async fn credentials(&self, name: &VolumeName) -> Result<Credentials> {
        const OPERATION: &str = "get credentials";
        let asked: DescribeCredentials = self.ask("DescribeCredentials", OPERATION, name).await?;
        let Some(first) = asked.credentials.and_then(|list| list.into_iter().next()) else {
            return Err(incomplete("DescribeCredentials", "Credentials", OPERATION, name));
        };
        let value = |key: &str| {
            let found = first.info.iter().flatten().find(|pair| pair.key.as_deref() == Some(key));
            found.and_then(|pair| pair.value.clone()).filter(|value| !value.is_empty())
        };
        let keys = (value("cos-access-key-id"), value("cos-secret-access-key"), value("cos-security-token"));
        let (Some(id), Some(secret), Some(token)) = keys else {
            return Err(incomplete("DescribeCredentials", "CredentialInfo", OPERATION, name));
        };
        let expiry = self.expiry(first.expiry.as_ref());
        let expiry = expiry.ok_or_else(|| incomplete("DescribeCredentials", "ExpireTimeInMs", OPERATION, name))?;
        Ok(Credentials::new(id, secret).with_session_token(Some(token)).with_expiry(Some(expiry)))
    }

    /// The end of credentials. One that is zero or not there is not known; they are then replaced well
    /// within the time that any temporary credentials live for.
    fn expiry(&self, given: Option<&Value>) -> Option<SystemTime> {
        let millis = match given {
            None | Some(Value::Null) => 0,
            Some(Value::String(text)) => text.trim().parse().ok()?,
            Some(value) => value.as_u64()?,
        };
        if millis == 0 {
            return Some(self.clock.now() + UNKNOWN_LIFE);
        }
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))
    }

    /// Asks, and explains what does not exist.
    async fn ask<T: DeserializeOwned>(
        &self,
        action: &'static str,
        operation: &'static str,
        name: &VolumeName,
    ) -> Result<T> {
        let error = match self.request(action, operation, name).await {
            Err(error) if error.is_not_found() => error,
            answered => return answered,
        };
        let VolumeName { catalog, schema, volume } = name;
        let (missing, what) = if action == "DescribeCatalog" {
            ("catalog", format!("catalog={catalog:?}"))
        } else {
            let schema_is_there = match self.request::<Value>("DescribeSchema", operation, name).await {
                Ok(_) => Some(true),
                Err(error) if error.is_not_found() => Some(false),
                Err(_) => None,
            };
            match schema_is_there {
                Some(false) => ("schema", format!("catalog={catalog:?} schema={schema:?}")),
                known => {
                    let missing = if known.is_some() { "volume" } else { "schema or volume" };
                    (missing, format!("catalog={catalog:?} schema={schema:?} volume={volume:?}"))
                }
            }
        };
        let mut explained = Error::new(ErrorKind::NotFound, format!("there is no such {missing}: {what}"))
            .with_hint(format!("create the {missing} first, nothing is created here; or check its name"));
        if let Some(code) = error.service_code() {
            explained = explained.with_service_code(code);
        }
        if let Some(id) = error.request_id() {
            explained = explained.with_request_id(id);
        }
        Err(named(explained, operation, name).with_source(error))
    }

    async fn request<T: DeserializeOwned>(
        &self,
        action: &'static str,
        operation: &'static str,
        name: &VolumeName,
    ) -> Result<T> {
        let VolumeName { catalog, schema, volume } = name;
        let parameters = match action {
            "DescribeCatalog" => json!({"CatalogName": catalog}),
            "DescribeSchema" => json!({"CatalogName": catalog, "SchemaName": schema}),
            _ => json!({"CatalogName": catalog, "SchemaName": schema, "VolumeName": volume}),
        };
        let request = Request {
            method: Method::POST,
            url: self.url.clone(),
            headers: self.headers(action).map_err(|e| named(e, operation, name))?,
            body: Bytes::from(parameters.to_string()),
            answer: AnswerForm::Document,
        };
        let call = Call::new(operation, name.url(), None);
        let answer = tokio::time::timeout(self.deadline, Box::pin(self.transport.send(&call, &request)))
            .await
            .map_err(|_| {
                let message = format!("the catalog did not answer in time: seconds={}", self.deadline.as_secs_f32());
                named(Error::new(ErrorKind::Timeout, message), operation, name)
                    .with_retry(Retry::Exhausted)
                    .with_hint("check the network, proxy variables such as https_proxy, and the catalog's endpoint")
            })?
            .map_err(|failure| failure.error)?;
        let response = response(&answer.body).map_err(|_| incomplete(action, "Response", operation, name))?;
        // What serde says could repeat a part of the answer.
        serde_json::from_value(response).map_err(|_| incomplete(action, "fields of the right type", operation, name))
    }

    fn headers(&self, action: &'static str) -> Result<HeaderMap> {
        let region = HeaderValue::from_str(&self.region)
            .map_err(|e| Error::invalid_config("the region cannot be sent").with_source(e))?;
        Ok([
            (CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8")),
            (HeaderName::from_static("x-tc-action"), HeaderValue::from_static(action)),
            (HeaderName::from_static("x-tc-version"), HeaderValue::from_static(VERSION)),
            (HeaderName::from_static("x-tc-region"), region),
        ]
        .into_iter()
        .collect())
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("url", &self.url).field("region", &self.region).finish_non_exhaustive()
    }
}

fn incomplete(action: &str, field: &str, operation: &'static str, name: &VolumeName) -> Error {
    let message = format!("the catalog's answer is not complete: action={action} missing={field}");
    named(Error::new(ErrorKind::Corrupt, message), operation, name)
        .with_hint("check that the endpoint is the catalog's, and that the credentials may use the volume")
}

fn named(error: Error, operation: &'static str, name: &VolumeName) -> Error {
    error.with_operation(operation).with_url(name.url())
}

#[derive(Deserialize)]
struct DescribeCatalog {
    #[serde(rename = "Catalog")]
    catalog: Option<CatalogInfo>,
}

#[derive(Deserialize)]
struct CatalogInfo {
    #[serde(rename = "Type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct DescribeVolume {
    #[serde(rename = "Volume")]
    volume: Option<VolumeInfo>,
}

#[derive(Deserialize)]
struct VolumeInfo {
    #[serde(rename = "StorageLocation")]
    storage_location: Option<String>,
}

/// Holds secrets, so there is no `Debug`.
#[derive(Deserialize)]
struct DescribeCredentials {
    #[serde(rename = "Credentials")]
    credentials: Option<Vec<VendedCredentials>>,
}

#[derive(Deserialize)]
struct VendedCredentials {
    #[serde(rename = "CredentialInfo")]
    info: Option<Vec<Pair>>,
    #[serde(rename = "ExpireTimeInMs")]
    expiry: Option<Value>,
}

#[derive(Deserialize)]
struct Pair {
    #[serde(rename = "Key")]
    key: Option<String>,
    #[serde(rename = "Value")]
    value: Option<String>,
}
