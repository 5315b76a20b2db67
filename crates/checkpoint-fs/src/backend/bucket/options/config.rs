//! `config_kwargs`: what s3fs hands to botocore's `Config`.

use super::Reader;
use crate::backend::bucket::Addressing;
use crate::options::KwArgs;

/// Words of `retries.mode`.
pub(crate) const RETRY_MODES: [&str; 3] = ["legacy", "standard", "adaptive"];
/// Words of the settings of checksums, in lower case.
pub(crate) const CHECKSUM_MODES: [&str; 2] = ["when_supported", "when_required"];

impl Reader<'_> {
    /// Reads them.
    pub(super) fn config_kwargs(&mut self, kw: &mut KwArgs<'_>) {
        kw.nested("config_kwargs", |config| {
            config.nested("s3", |s3| self.s3(s3));
            let region = config.text("region_name");
            if self.read.region.is_none() {
                self.read.region = self.given(region, "config_kwargs.region_name");
            }
            self.read.connect_timeout = config.seconds("connect_timeout");
            self.read.read_timeout = config.seconds("read_timeout");
            self.read.concurrency = config.count("max_pool_connections", 1).and_then(|n| usize::try_from(n).ok());
            self.read.attempts = config.nested("retries", |retries| {
                word(retries, "mode", &RETRY_MODES);
                retries.ignored(&["mode"], "there is one way of retrying");
                let total = retries.count("total_max_attempts", 1);
                // `max_attempts` counts what comes after the first attempt.
                let more = retries.count("max_attempts", 0).map(|n| n.saturating_add(1));
                total.or(more).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
            });
            self.read.dual_stack_of_all =
                self.given(config.flag("use_dualstack_endpoint"), "config_kwargs.use_dualstack_endpoint");
            self.read.fips = self.given(config.flag("use_fips_endpoint"), "config_kwargs.use_fips_endpoint");
            self.read.ignore_configured_endpoints = config.flag("ignore_configured_endpoint_urls");
            self.read.defaults_mode = self.given(config.text("defaults_mode"), "config_kwargs.defaults_mode");
            self.proxies(config);
            signature(config);
            // What is set must be right all the same, as for botocore.
            word_of_any_case(config, "request_checksum_calculation", &CHECKSUM_MODES);
            word_of_any_case(config, "response_checksum_validation", &CHECKSUM_MODES);
            config.ignored(
                &["request_checksum_calculation", "response_checksum_validation"],
                "no checksum that a compatible store could refuse is ever sent",
            );
            config.ignored(
                &[
                    "user_agent",
                    "user_agent_extra",
                    "user_agent_appid",
                    "parameter_validation",
                    "inject_host_prefix",
                    "endpoint_discovery_enabled",
                    "tcp_keepalive",
                    "request_min_compression_size_bytes",
                    "disable_request_compression",
                    "client_context_params",
                    "sigv4a_signing_region_set",
                    "account_id_endpoint_mode",
                    "auth_scheme_preference",
                    "connector_args",
                    "http_session_cls",
                    "warm_up_loader_caches",
                    "s3_disable_express_session_auth",
                ],
                "it changes no request here",
            );
            config.refused(&["client_cert"], "client certificates are not sent");
        });
    }

    fn s3(&mut self, s3: &mut KwArgs<'_>) {
        let style = match s3.text("addressing_style").as_deref() {
            None => None,
            Some("auto") => Some(None),
            Some("path") => Some(Some(Addressing::Path)),
            Some("virtual") => Some(Some(Addressing::Virtual)),
            Some(_) => {
                s3.problem("config_kwargs.s3.addressing_style must be path, virtual or auto");
                None
            }
        };
        self.read.addressing = self.given(style, "config_kwargs.s3.addressing_style");
        self.read.sign_payload = s3.flag("payload_signing_enabled");
        self.read.accelerate =
            self.given(s3.flag("use_accelerate_endpoint"), "config_kwargs.s3.use_accelerate_endpoint");
        self.read.dual_stack = self.given(s3.flag("use_dualstack_endpoint"), "config_kwargs.s3.use_dualstack_endpoint");
        let regional = s3.text("us_east_1_regional_endpoint");
        self.read.us_east_1_regional = self.given(regional, "config_kwargs.s3.us_east_1_regional_endpoint");
        s3.ignored(
            &["use_arn_region", "disable_s3_express_session_auth", "disable_multiregion_access_points"],
            "buckets are named by their names",
        );
    }

    /// `proxies`: the proxy of each scheme, instead of those in the environment.
    fn proxies(&mut self, config: &mut KwArgs<'_>) {
        let given = config.nested("proxies", |proxies| {
            ["http", "https"]
                .map(|scheme| Some((scheme.to_owned(), proxies.text(scheme)?)))
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        });
        if !given.is_empty() {
            let given: Vec<_> = given.into_iter().map(|(scheme, url)| (scheme, with_scheme(url))).collect();
            for (scheme, _) in given.iter().filter(|(_, url)| url::Url::parse(url).is_err()) {
                config.problem(format!("config_kwargs.proxies.{scheme} must be a URL such as http://host:port"));
            }
            self.read.proxies = Some(given);
        }
        config.refused(&["proxies_config"], "a proxy's own certificates cannot be set");
    }
}

/// A proxy may be written without a scheme.
fn with_scheme(url: String) -> String {
    if url.contains("://") { url } else { format!("http://{}", url.trim_start_matches('/')) }
}

fn word_of_any_case(kw: &mut KwArgs<'_>, key: &'static str, words: &[&str]) {
    if kw.text(key).is_some_and(|text| !words.contains(&text.to_lowercase().as_str())) {
        kw.problem(format!("{key} must be one of: {}", words.join(", ")));
    }
}

fn word(kw: &mut KwArgs<'_>, key: &'static str, words: &[&str]) {
    if kw.text(key).is_some_and(|text| !words.contains(&text.as_str())) {
        kw.problem(format!("{key} must be one of: {}", words.join(", ")));
    }
}

fn signature(config: &mut KwArgs<'_>) {
    match config.text("signature_version").as_deref() {
        None | Some("s3v4" | "v4") => {}
        Some("unsigned" | "UNSIGNED") => config.problem("config_kwargs.signature_version: write anon=true instead"),
        Some(_) => config.problem("config_kwargs.signature_version must be s3v4; older ones are not signed here"),
    }
}
