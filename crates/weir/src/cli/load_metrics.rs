//! `weir load --prometheus`, `--remote-write`: where figures go while they are measured.
//!
//! Owns: their words. Never: writes or sends; `weir_loadgen` does.
//! Driven by: `load`.

use std::path::PathBuf;

use clap::Args;
use weir_loadgen::prometheus::{self, PromFile};
use weir_loadgen::report::Report;
use weir_loadgen::{Interval, RemoteWrite, Watch, shot};

/// Figures for Prometheus.
#[derive(Args, Clone)]
pub(super) struct Metrics {
    /// Write a Prometheus text file each second, such as node_exporter's textfile collector reads.
    #[arg(long, value_name = "FILE")]
    prometheus: Option<PathBuf>,
    /// Send figures each second to a receiver of Prometheus remote write; a user and a password may stand in the URL.
    #[arg(long, value_name = "URL")]
    remote_write: Option<String>,
    /// A field of those requests, such as `Authorization: Bearer …`; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", value_parser = shot::header, requires = "remote_write")]
    remote_write_header: Vec<(String, String)>,
    /// Authorities that an https:// receiver's certificate is verified by, PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "remote_write")]
    remote_write_ca: Option<PathBuf>,
    /// A label of all metrics, such as `stage=canary`; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = prometheus::label)]
    label: Vec<(String, String)>,
}

/// Where figures go.
pub(super) struct Sinks {
    file: Option<PromFile>,
    remote: Option<RemoteWrite>,
}

impl Metrics {
    /// Refuses labels of nothing.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.label.is_empty() && self.prometheus.is_none() && self.remote_write.is_none() {
            return Err("--label means nothing here: it needs --prometheus or --remote-write".into());
        }
        Ok(())
    }

    /// Opens what is asked for.
    pub(super) fn start(self) -> Result<Sinks, String> {
        let ca = self.remote_write_ca.as_ref();
        let ca = ca
            .map(|path| {
                std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
            })
            .transpose()?;
        let file =
            self.prometheus.as_deref().map(|path| PromFile::create(path, self.label.clone())).transpose()?;
        let remote = self
            .remote_write
            .as_deref()
            .map(|url| RemoteWrite::start(url, ca, self.remote_write_header, self.label))
            .transpose()?;
        Ok(Sinks { file, remote })
    }
}

impl Sinks {
    /// A second has passed.
    pub(super) fn interval(&mut self, interval: &Interval<'_>) {
        if let Some(file) = &mut self.file {
            file.interval(interval);
        }
        if let Some(remote) = &mut self.remote {
            remote.interval(interval);
        }
    }

    /// The run is over.
    pub(super) fn finished(&mut self, report: &Report) {
        if let Some(file) = &mut self.file {
            file.finished(report);
        }
        if let Some(remote) = &mut self.remote {
            remote.finished(report);
        }
    }

    /// Waits until all is sent. What a receiver did not take is told and fails nothing: the figures are there.
    pub(super) fn finish(self) -> Result<(), String> {
        if let Some(Err(why)) = self.remote.map(RemoteWrite::finish) {
            errln!("warning: {why}");
        }
        self.file.map_or(Ok(()), |mut file| file.finish())
    }
}
