//! `log` lines and what they say of a target.

use weir_expr::settings::{LogSample, SyslogForm};

use crate::draft::{LogTarget, Proxy};
use crate::findings::Findings;
use crate::read::{Line, Prefix, Word};
use crate::values::size;
use crate::words::Call;

const FACILITIES: &[&str] = &[
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp", "ntp",
    "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const LEVELS: &[&str] = &["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// `log`: `log global`, `no log`, or a target.
pub(crate) fn log(proxy: &mut Proxy, call: &Call<'_>, findings: &mut Findings) {
    let logs = &mut proxy.settings.logs;
    if call.line.prefix == Prefix::No {
        logs.global = false;
        logs.own.clear();
    } else if call.text(0) == "global" && call.arguments.len() == 1 {
        logs.global = true;
    } else if let Some(target) = log_target(call, findings) {
        logs.own.push(target);
    }
}

/// `ADDRESS [len N] [format F] [sample S] [profile P] FACILITY [LEVEL [MINLEVEL]]`.
pub(crate) fn log_target(call: &Call<'_>, findings: &mut Findings) -> Option<LogTarget> {
    target_of_log(call.line, call.arguments, findings)
}

/// The same, in words of any line.
pub(crate) fn target_of_log(line: &Line, words: &[Word], findings: &mut Findings) -> Option<LogTarget> {
    let address = words.first()?.clone();
    let mut max_length = 1024;
    let (mut form, mut sample, mut local) = (None, None, false);
    let mut at = 1;
    loop {
        let Some(word) = words.get(at) else {
            findings.missing(line, "a facility");
            return None;
        };
        let value = words.get(at + 1);
        match (word.as_str(), value) {
            ("len", Some(value)) => {
                let length = findings.value(value, |text| size::count(text, 80..=65_535))?;
                max_length = usize::try_from(length).unwrap_or(1024);
            }
            ("format", Some(value)) => {
                form = self::form(value, findings);
                local = value.as_str() == "local";
            }
            ("sample", Some(value)) => sample = Some(self::sample(value, findings)?),
            ("profile", Some(value)) => {
                findings.tuning(value.span, "log profile", "lines have the proxy's own format")
            }
            _ => break,
        }
        at += 2;
    }
    let facility = words.get(at)?;
    if !FACILITIES.contains(&facility.as_str()) {
        findings.bad_choice(facility, "log facility", FACILITIES);
        return None;
    }
    let level = log_level(words.get(at + 1), 7, findings)?;
    let min_level = log_level(words.get(at + 2), 0, findings)?;
    let facility = facility.text.clone();
    Some(LogTarget { address, max_length, form, local, sample, facility, level, min_level })
}

/// The form that a word names.
pub(crate) fn form(word: &Word, findings: &mut Findings) -> Option<SyslogForm> {
    const FORMS: [(&str, SyslogForm); 8] = [
        ("rfc3164", SyslogForm::Rfc3164),
        ("rfc5424", SyslogForm::Rfc5424),
        ("local", SyslogForm::Rfc3164),
        ("raw", SyslogForm::Raw),
        ("short", SyslogForm::Short),
        ("timed", SyslogForm::Timed),
        ("iso", SyslogForm::Iso),
        ("priority", SyslogForm::Priority),
    ];
    let known = FORMS.iter().find(|(name, _)| *name == word.text).map(|&(_, form)| form);
    if known.is_none() {
        findings.bad_choice(word, "log format", &FORMS.map(|(name, _)| name));
    }
    known
}

/// `RANGES:SIZE`, where ranges are `1`, `2-3` or lists of them.
fn sample(word: &Word, findings: &mut Findings) -> Option<LogSample> {
    let read = |text: &str| -> Result<LogSample, String> {
        let bad = || format!("`{text}` is no sample: those are written `1:3` or `1,3-4:10`");
        let (ranges, of) = text.split_once(':').ok_or_else(bad)?;
        let of: u32 = of.parse().map_err(|_| bad())?;
        let mut all: Vec<(u32, u32)> = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) =
                (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
            if first == 0 || first > last || last > of {
                return Err(format!("`{range}` is no range of places from 1 to {of}"));
            }
            if all.iter().any(|(other, end)| first <= *end && *other <= last) {
                return Err(format!("`{range}` overlaps another range"));
            }
            all.push((first, last));
        }
        Ok(LogSample { ranges: all, of })
    };
    findings.value(word, read)
}

fn log_level(word: Option<&Word>, default: u8, findings: &mut Findings) -> Option<u8> {
    let Some(word) = word else { return Some(default) };
    match LEVELS.iter().position(|level| *level == word.text) {
        Some(level) => u8::try_from(level).ok(),
        None => {
            findings.bad_choice(word, "log level", LEVELS);
            None
        }
    }
}
