//! What a scenario has to be for it to be run.
//!
//! Owns: the rules, and the sentence for each that is broken.
//! Never: reads a file.
//! Driven by: `scenario`, for each text that it reads.

use super::{Contender, Generator, Mode, Point, Scenario, is_name};
use crate::sizes::bytes;
use anyhow::{Result, ensure};

/// The longest run, seconds.
const DAY: f64 = 86_400.0;

impl Scenario {
    /// Everything, of the full form and the quick one.
    pub(super) fn check(&self) -> Result<()> {
        for quick in [false, true] {
            for single in self.singles(quick) {
                self.rates(quick).of(&single.size)?;
            }
            self.check_form(quick)?;
        }
        self.check_contenders()?;
        self.check_goals()?;
        self.check_generator()?;
        self.check_soak()?;
        self.check_changes()
    }

    fn check_form(&self, quick: bool) -> Result<()> {
        let points = self.points(quick);
        ensure!(!points.is_empty() && !self.contenders.is_empty(), "nothing to measure");
        self.check_effort(quick)?;
        for point in &points {
            bytes(&point.size)?;
            ensure!(point.workers > 0, "a server has at least one worker");
            ensure!(
                !point.closes_behind || matches!(point.mode, Mode::Http | Mode::Https),
                "closes_behind: {} keeps no connections to servers behind it",
                point.mode.title()
            );
        }
        ensure!(
            (1..=100_000).contains(&self.idle(quick)),
            "idle: {} connections, of 1 to 100,000",
            self.idle(quick)
        );
        ensure!(
            (1..=100_000).contains(&self.sites(quick)) && (1..=1000).contains(&self.locations),
            "1 to 100,000 sites of 1 to 1,000 locations"
        );
        Ok(())
    }

    /// Runs are of some length.
    pub(super) fn check_effort(&self, quick: bool) -> Result<()> {
        let effort = self.effort(quick);
        ensure!(
            effort.runs > 0 && effort.seconds > 0.0 && effort.warmup >= 0.0,
            "runs and seconds must be above 0"
        );
        ensure!(effort.seconds <= DAY && effort.warmup <= DAY, "a run takes a day at most");
        ensure!(
            self.generator != Generator::Wrk || effort.seconds.fract() == 0.0,
            "wrk measures whole seconds: {} are none",
            effort.seconds
        );
        Ok(())
    }

    fn check_contenders(&self) -> Result<()> {
        let judged = self.points.iter().flat_map(|p| [Some(p.by), p.against]).flatten();
        for who in self.contenders.iter().copied().chain(judged) {
            ensure!(
                !matches!(who, Contender::Named(_)),
                "`{}` is no contender: {} are",
                who.name(),
                Contender::KNOWN.map(Contender::class).join(", ")
            );
        }
        ensure!(self.connections > 0, "connections must be above 0");
        ensure!(
            (1..=64).contains(&self.clients) && (1..=64).contains(&self.servers),
            "clients and servers: 1 to 64 of each"
        );
        ensure!(self.connections >= u32::from(self.clients), "each client needs a connection at least");
        Ok(())
    }

    fn check_goals(&self) -> Result<()> {
        let mut ids: Vec<&str> = Vec::new();
        for single in &self.points {
            let Some(id) = &single.id else {
                ensure!(single.target.is_none(), "a point with a target has an id");
                continue;
            };
            ensure!(is_name(id), "id `{id}`: letters, digits, - and _ only");
            ensure!(!ids.contains(&id.as_str()), "two points have the id {id}");
            ensure!(single.runs != Some(0), "{id}: runs must be above 0");
            for ratio in [single.target, single.stretch].into_iter().flatten() {
                ensure!(ratio > 0.0, "{id}: a target is a ratio above 0");
            }
            ids.push(id);
        }
        let one_rate = self.goals(false).iter().all(|g| g.point.rate.is_none());
        ensure!(
            ids.is_empty() || (self.workers.len() == 1 && one_rate),
            "points that have an id are of one number of workers, and at full speed"
        );
        Ok(())
    }

    fn check_changes(&self) -> Result<()> {
        for quick in [false, true].into_iter().filter(|_| self.changes.is_some()) {
            let works = |p: &Point| matches!(p.mode, Mode::Http | Mode::Https);
            ensure!(
                self.changes(quick) > 0 && self.servers > 1 && self.points(quick).iter().all(works),
                "changes: one at least, of a load balancer for HTTP with two servers or more behind it"
            );
        }
        Ok(())
    }

    fn check_soak(&self) -> Result<()> {
        for quick in [false, true].into_iter().filter(|_| self.soak) {
            let points = self.points(quick);
            let paced = points.iter().filter(|p| p.rate.is_some());
            let kinds: Vec<Point> = points.iter().map(Point::at_full_speed).collect();
            ensure!(
                paced.count() > 0 && kinds.windows(2).all(|pair| pair[0] == pair[1]),
                "soak: one mode, size and number of workers, and rates"
            );
            ensure!(
                self.effort(quick).runs > 1,
                "soak: two runs at least: drift is what the last adds to the first"
            );
        }
        Ok(())
    }

    fn check_generator(&self) -> Result<()> {
        let paced = [false, true].into_iter().flat_map(|q| self.points(q)).any(|p| p.rate.is_some());
        ensure!(
            self.generator != Generator::Wrk || (self.clients == 1 && !paced),
            "wrk knows neither rates nor several clients: leave out `generator: wrk`"
        );
        Ok(())
    }
}
