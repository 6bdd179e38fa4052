//! User variables.

use std::sync::Arc;

use ipnet::IpNet;
use weir_diag::Diagnostic;
use weir_model as model;
use weir_plan as plan;
use weir_plan::{MapParts, MapTable, NetMap};

use crate::context::Cx;

/// Those who are believed about their clients, if there are any.
fn proxies(all: &[IpNet], recursive: bool) -> Option<Box<plan::GeoProxies>> {
    (!all.is_empty()).then(|| {
        let from = NetMap::new(all.iter().map(|net| (*net, ())), true);
        Box::new(plan::GeoProxies { from, recursive })
    })
}

impl<'m> Cx<'m> {
    pub(crate) fn variable(&mut self, variable: &'m model::Variable) -> plan::Variable {
        let definition = match &variable.definition {
            model::Definition::Assigned => plan::Definition::Assigned,
            model::Definition::Map(table) => plan::Definition::Map(Arc::new(self.map_table(table))),
            model::Definition::Geo { source, proxies, recursive, networks, default } => {
                let values: Vec<plan::Template> =
                    networks.iter().map(|(_, value)| self.template(value)).collect();
                let nets = (0u32..).zip(networks).map(|(at, (net, _))| (*net, at));
                plan::Definition::Geo {
                    source: self.optional_template(source.as_ref()),
                    proxies: self::proxies(proxies, *recursive),
                    // Of one network named twice the later value stands, as in nginx.
                    networks: Arc::new(NetMap::new(nets, false)),
                    values: values.into(),
                    default: self.template(default),
                }
            }
            model::Definition::Database(using) => self.database(using),
            model::Definition::Listed { source, list, default } => plan::Definition::Listed {
                source: self.template(source),
                list: self.key_use(*list),
                default: self.template(default),
            },
            model::Definition::Numbers { source, exact, ranges, default, volatile } => {
                let mut exact: Vec<(i64, plan::Template)> =
                    exact.iter().map(|(number, value)| (*number, self.template(value))).collect();
                exact.sort_by_key(|one| one.0);
                plan::Definition::Numbers(Box::new(plan::NumberTable {
                    source: self.template(source),
                    exact: exact.into(),
                    ranges: ranges
                        .iter()
                        .map(|(from, to, value)| (*from, *to, self.template(value)))
                        .collect(),
                    default: self.template(default),
                    volatile: *volatile,
                }))
            }
            model::Definition::Keyval { key, zone, tcp } => {
                let is_it = |one: &weir_expr::settings::KeyvalZone| one.name == *zone && one.tcp == *tcp;
                match (0u32..).zip(&self.model.keyvals).find(|(_, one)| is_it(one)) {
                    Some((at, _)) => {
                        plan::Definition::Keyval { key: self.template(key), zone: plan::KeyvalIx(at) }
                    }
                    None => {
                        let title = format!("there is no store of keys and values called `{zone}`");
                        self.report(weir_diag::Diagnostic::error("keyval::unknown-zone", title));
                        plan::Definition::Assigned
                    }
                }
            }
            model::Definition::Converted { source, steps } => plan::Definition::Converted {
                source: self.template(source),
                steps: steps.iter().map(|step| self.step(step)).collect(),
            },
            model::Definition::Split { key, shares } => plan::Definition::Split {
                key: self.template(key),
                shares: shares.iter().map(|(bound, value)| (*bound, self.template(value))).collect(),
            },
        };
        plan::Variable { name: variable.name.as_str().into(), definition }
    }

    /// A variable without its database, which has been reported, is one that nobody assigns.
    fn database(&mut self, using: &'m model::NetworkDatabase) -> plan::Definition {
        let Some(database) = self.network_database(using) else { return plan::Definition::Assigned };
        plan::Definition::Database(Box::new(plan::DatabaseUse {
            database,
            part: using.part.clone(),
            source: self.optional_template(using.source.as_ref()),
            proxies: proxies(&using.proxies, using.recursive),
            default: using.default.as_deref().map(Box::from),
        }))
    }

    /// The database of a file, of which there is one whatever number of variables.
    fn network_database(&mut self, using: &'m model::NetworkDatabase) -> Option<Arc<plan::Database>> {
        if let Some(known) = self.shared.databases.get(&*using.file) {
            return known.clone();
        }
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let bytes = self.file("database::unreadable-file", "the database", &using.file);
        let made = bytes.and_then(|bytes| {
            match plan::Database::new(&using.file.to_string_lossy(), bytes, using.reload, now) {
                Ok(made) => Some(Arc::new(made)),
                Err(error) => {
                    let title = format!("`{}` is no MaxMind database: {error}", using.file.display());
                    self.report(Diagnostic::error("database::bad-file", title));
                    None
                }
            }
        });
        self.shared.databases.insert(&using.file, made.clone());
        made
    }

    fn step(&mut self, step: &'m model::Step) -> plan::Step {
        match step {
            model::Step::Convert(convert) => plan::Step::Convert(convert.clone()),
            model::Step::Coding(coding) => plan::Step::Coding(*coding),
            model::Step::Replace { pattern, with, all } => {
                plan::Step::Replace { pattern: self.pattern(pattern), with: self.template(with), all: *all }
            }
            model::Step::Stick { table, what } => {
                plan::Step::Stick { table: table.as_str().into(), what: *what }
            }
            model::Step::Append(text) => plan::Step::Append(self.template(text)),
            model::Step::Call { routine, arguments } => plan::Step::Call {
                routine: *routine,
                arguments: arguments.iter().map(|text| self.template(text)).collect(),
            },
            model::Step::Note(variable) => self.noted(variable, plan::Step::Note),
            model::Step::NoteEnd(variable, length) => {
                self.noted(variable, |slot| plan::Step::NoteEnd(slot, *length))
            }
            model::Step::Forget(variable) => self.noted(variable, plan::Step::Forget),
            model::Step::Keep { of, name, number } => {
                plan::Step::Keep { of: *of, name: name.as_str().into(), number: *number }
            }
            model::Step::ForgetKept { of, name } => {
                plan::Step::ForgetKept { of: *of, name: name.as_str().into() }
            }
        }
    }

    /// A step that writes to a variable.
    fn noted(&mut self, variable: &str, step: impl FnOnce(weir_expr::Slot) -> plan::Step) -> plan::Step {
        match self.names.slot(variable) {
            Some(slot) => {
                self.assigned.insert(slot);
                step(slot)
            }
            // Front ends define what they note; nothing is noted under a name that nobody knows.
            None => plan::Step::Append(plan::Template::default()),
        }
    }

    fn map_table(&mut self, table: &'m model::MapTable) -> MapTable {
        let mut entries = |list: &[(String, model::Template)]| -> Vec<(String, plan::Template)> {
            list.iter().map(|(key, value)| (key.clone(), self.template(value))).collect()
        };
        let (exact, suffixes, prefixes) =
            (entries(&table.exact), entries(&table.suffixes), entries(&table.prefixes));
        let patterns =
            table.patterns.iter().map(|(pattern, value)| (self.pattern(pattern), self.template(value)));
        let patterns = patterns.collect();
        MapTable::new(MapParts {
            source: self.template(&table.source),
            exact,
            suffixes,
            prefixes,
            patterns,
            default: self.template(&table.default),
            hostnames: table.hostnames,
            volatile: table.volatile,
        })
    }
}
