//! `client_kwargs`: what s3fs hands to botocore's `create_client`.

use super::Reader;
use crate::options::KwArgs;

impl Reader<'_> {
    /// Reads them. A key or an endpoint that is given outside as well must be the same.
    pub(super) fn client_kwargs(&mut self, kw: &mut KwArgs<'_>) {
        kw.nested("client_kwargs", |client| {
            let read = &mut self.read;
            let pairs = [
                (&mut read.key, "aws_access_key_id"),
                (&mut read.secret, "aws_secret_access_key"),
                (&mut read.token, "aws_session_token"),
            ];
            for (slot, key) in pairs {
                let Some(text) = client.text(key) else { continue };
                if slot.as_ref().is_some_and(|given| *given != text) {
                    self.twice.push(key);
                }
                *slot = Some(text);
            }
            if read.key.is_some() && read.key_source.is_none() {
                self.read.key_source = Some(self.source("client_kwargs.aws_access_key_id"));
            }
            if let Some(url) = client.text("endpoint_url") {
                match &self.read.endpoint {
                    Some(given) if given.value != url => self.twice.push("endpoint_url"),
                    Some(_) => {}
                    None => self.read.endpoint = self.given(Some(url), "client_kwargs.endpoint_url"),
                }
            }
            if let Some(region) = client.text("region_name") {
                match &self.read.region {
                    Some(given) if given.value != region => self.twice.push("region_name"),
                    Some(_) => {}
                    None => self.read.region = self.given(Some(region), "client_kwargs.region_name"),
                }
            }
            self.read.verify = self.given(client.text("verify"), "client_kwargs.verify");
            if let Some(tls) = client.flag("use_ssl") {
                // As in s3fs, this one counts.
                self.read.tls = self.given(Some(tls), "client_kwargs.use_ssl");
            }
            client.ignored(&["api_version", "aws_account_id"], "it changes no request here");
            client.refused(&["config"], "write its settings into config_kwargs");
            client.refused(&["service_name"], "it is always s3");
        });
    }
}
