//! A role taken on with an OIDC token, as pods of Alibaba's Kubernetes service get one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use serde::Deserialize;

use super::issued::{Issued, words};
use crate::credentials::service::{Exchange, JsonDialect, Route, Services, Wanted};
use crate::credentials::{CredentialProvider, Credentials, Secret, ShownPath};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{ClientSettings, RetryPolicy, SystemClock, TlsRoots};

const ROLE_VARIABLE: &str = "ALIBABA_CLOUD_ROLE_ARN";
const PROVIDER_VARIABLE: &str = "ALIBABA_CLOUD_OIDC_PROVIDER_ARN";
const TOKEN_FILE_VARIABLE: &str = "ALIBABA_CLOUD_OIDC_TOKEN_FILE";
const SESSION_VARIABLE: &str = "ALIBABA_CLOUD_ROLE_SESSION_NAME";
const REGION_VARIABLE: &str = "ALIBABA_CLOUD_STS_REGION";
const VPC_VARIABLE: &str = "ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED";

const DEFAULT_SESSION: &str = "checkpoint-fs";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(15);
const ATTEMPTS: u32 = 3;

/// Gives the token in a file for the role's credentials. The file is read each time, since whoever
/// runs the pod renews it.
#[derive(Debug, Clone)]
pub(crate) struct OidcRole {
    service: String,
    role: String,
    provider: String,
    token_file: PathBuf,
    session: String,
    retry: RetryPolicy,
    services: Services,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    credentials: Issued,
}

impl OidcRole {
    /// `None` unless role, provider and token file are all named.
    pub(crate) fn from_environment(environment: &Environment) -> Option<Self> {
        let get = |name| environment.get(name).map(str::to_owned);
        let prefix = match environment.get(VPC_VARIABLE) {
            Some(on) if on.eq_ignore_ascii_case("true") => "sts-vpc",
            _ => "sts",
        };
        let service = match environment.get(REGION_VARIABLE) {
            Some(region) => format!("https://{prefix}.{region}.aliyuncs.com/"),
            None => "https://sts.aliyuncs.com/".to_owned(),
        };
        let settings = ClientSettings {
            connect_timeout: CONNECT_TIMEOUT,
            idle_connections: 1,
            tls: TlsRoots::System,
            environment: environment.clone(),
        };
        Some(Self {
            service,
            role: get(ROLE_VARIABLE)?,
            provider: get(PROVIDER_VARIABLE)?,
            token_file: get(TOKEN_FILE_VARIABLE)?.into(),
            session: get(SESSION_VARIABLE).unwrap_or_else(|| DEFAULT_SESSION.to_owned()),
            retry: RetryPolicy::default().with_attempts(ATTEMPTS),
            services: Services::new(settings, Arc::new(SystemClock)),
        })
    }

    async fn ask(&self, token: &str) -> Result<Credentials> {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("Action", "AssumeRoleWithOIDC")
            .append_pair("Format", "JSON")
            .append_pair("Version", "2015-04-01")
            .append_pair("RoleArn", &self.role)
            .append_pair("OIDCProviderArn", &self.provider)
            .append_pair("RoleSessionName", &self.session)
            .append_pair("OIDCToken", token)
            .finish();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        let hint = format!("check {ROLE_VARIABLE}, {PROVIDER_VARIABLE} and whom the role trusts");
        let exchange = Exchange {
            operation: "assume role with OIDC",
            method: Method::POST,
            url: self.service.clone(),
            shown: self.service.clone(),
            headers,
            body: Bytes::from(form),
            secrets: vec![Secret::new(token)],
            route: Route::Proxied,
            signed: None,
            dialect: Arc::new(JsonDialect { wanted: Wanted::Field("Credentials"), said: words, passing: &[], hint }),
            retry: self.retry,
            timeout: PATIENCE,
        };
        let answer = self.services.exchange(exchange).await.map_err(|failure| failure.error)?;
        let answer: Answer = serde_json::from_slice(&answer.body).map_err(|_| {
            Error::new(ErrorKind::Unauthenticated, "the token service's answer holds no credentials")
                .with_url(self.service.as_str())
        })?;
        answer.credentials.into_credentials("OIDC role")
    }
}

#[async_trait]
impl CredentialProvider for OidcRole {
    fn name(&self) -> &str {
        "OIDC role"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let token = tokio::fs::read_to_string(&self.token_file).await.map_err(|e| {
            let path = ShownPath(&self.token_file);
            Error::invalid_config(format!("the OIDC token cannot be read: path={path}"))
                .with_hint(format!("{TOKEN_FILE_VARIABLE} names the file"))
                .with_source(e)
        })?;
        Box::pin(self.ask(token.trim())).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::service::trials::{Fake, Trial, quick};

    const KEYS: &str = r#"{"RequestId":"R","Credentials":{"AccessKeyId":"STS.AK","AccessKeySecret":"SK",
        "SecurityToken":"T","Expiration":"2030-01-31T12:00:00Z"}}"#;

    fn variables(file: &str) -> Environment {
        [
            (ROLE_VARIABLE, "acs:ram::1:role/worker"),
            (PROVIDER_VARIABLE, "acs:ram::1:oidc-provider/ack"),
            (TOKEN_FILE_VARIABLE, file),
        ]
        .into_iter()
        .collect()
    }

    #[tokio::test]
    async fn the_token_is_given_for_credentials() {
        let directory = tempfile::tempdir().expect("made");
        let file = directory.path().join("token");
        std::fs::write(&file, "ey.J+\n").expect("written");
        let fake = Fake::start(|seen| {
            let form: Vec<(String, String)> = url::form_urlencoded::parse(&seen.body).into_owned().collect();
            let has = |name: &str, value: &str| form.iter().any(|(n, v)| n == name && v == value);
            let right = has("Action", "AssumeRoleWithOIDC")
                && has("RoleArn", "acs:ram::1:role/worker")
                && has("OIDCProviderArn", "acs:ram::1:oidc-provider/ack")
                && has("RoleSessionName", DEFAULT_SESSION)
                && has("OIDCToken", "ey.J+");
            if right { (200, KEYS.to_owned()) } else { (400, String::new()) }
        })
        .await;
        let environment = variables(file.to_str().expect("text"));
        let role = OidcRole { service: fake.url(), ..OidcRole::from_environment(&environment).expect("set up") };
        let found = role.load().await.expect("valid").expect("found");
        assert_eq!((found.access_key_id(), found.source()), ("STS.AK", Some("OIDC role")));

        let refusing = Fake::start(|_| {
            (400, r#"{"Code":"AuthenticationFail.OIDCToken.Expired","Message":"expired","RequestId":"R9"}"#.to_owned())
        })
        .await;
        let error = OidcRole { service: refusing.url(), ..role.clone() }.load().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert_eq!(error.service_code(), Some("AuthenticationFail.OIDCToken.Expired"));
        assert_eq!(error.request_id(), Some("R9"));

        std::fs::remove_file(&file).expect("removed");
        assert_eq!(role.load().await.expect_err("no file").kind(), ErrorKind::InvalidConfig);
    }

    #[tokio::test]
    async fn what_a_service_may_do() {
        let directory = tempfile::tempdir().expect("made");
        let file = directory.path().join("token");
        std::fs::write(&file, "ey.hunter2.token").expect("written");
        let role = OidcRole::from_environment(&variables(file.to_str().expect("text"))).expect("set up");
        let refusal = r#"{"Code":"AuthenticationFail","Message":"whose is ey.hunter2.token?","RequestId":"R9"}"#;
        Trial { good: |_| (200, KEYS.to_owned()), refusal, words: "whose is", secret: "hunter2" }
            .run(|url| {
                let role = OidcRole { service: url, retry: quick(), ..role.clone() };
                async move { role.load().await }
            })
            .await;
    }

    #[test]
    fn all_three_variables_are_needed() {
        let full = variables("/token");
        let role = OidcRole::from_environment(&full).expect("set up");
        assert_eq!(role.service, "https://sts.aliyuncs.com/");
        for missing in [ROLE_VARIABLE, PROVIDER_VARIABLE, TOKEN_FILE_VARIABLE] {
            let rest: Environment = [ROLE_VARIABLE, PROVIDER_VARIABLE, TOKEN_FILE_VARIABLE]
                .into_iter()
                .filter(|name| *name != missing)
                .map(|name| (name, "x"))
                .collect();
            assert!(OidcRole::from_environment(&rest).is_none(), "{missing}");
        }
        let names = [ROLE_VARIABLE, PROVIDER_VARIABLE, TOKEN_FILE_VARIABLE, REGION_VARIABLE, VPC_VARIABLE];
        let vpc: Environment = names.into_iter().zip(["r", "p", "f", "cn-hangzhou", "true"]).collect();
        assert_eq!(
            OidcRole::from_environment(&vpc).expect("set up").service,
            "https://sts-vpc.cn-hangzhou.aliyuncs.com/"
        );
    }
}
