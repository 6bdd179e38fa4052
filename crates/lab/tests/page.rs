//! The report in a browser: whole, drawn, and without the network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Shown, fill, settings};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use weir_lab::prices::Prices;
use weir_lab::rate::Rate;
use weir_lab::report::{self, Report, knee::Where};
use weir_lab::scenario::{Point, Who};

const WORKERS: &str = "\
id: B3
title: a web server
about: for a test
contenders: [weir, nginx]
modes: [files-http, files-https]
keepalive: [true]
sizes: [1k, 10k]
workers: [1, 2, 4, 64]
connections: 50
plots: [workers]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const PROXIES: &str = "\
id: B8
title: \"a proxy <b>in the middle</b> & more\"
about: for a test
contenders: [direct, weir, nginx, haproxy]
modes: [http, https, tcp-https]
keepalive: [true, false]
sizes: [1k, 10k, 100k]
connections: 50
plots: [bars, distribution]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const RATES: &str = "\
id: B1
title: latency against rate
about: for a test
contenders: [weir, nginx, haproxy]
modes: [https]
keepalive: [true]
sizes: [10k]
connections: 50
rates: [max, 5000, 10000, 20000, 30000, 40000, 50000, 60000, 70000]
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const BURST: &str = "\
id: B2
title: run by run
about: for a test
contenders: [weir, nginx]
modes: [https]
keepalive: [true]
sizes: [1k]
connections: 50
rates: [max, 2500]
full: { runs: 20, seconds: 20, warmup: 2 }
quick: { runs: 20, seconds: 1, warmup: 0.1 }
";

const SIZING: &str = "\
id: B6
title: a reverse proxy
about: for a test
contenders: [weir, nginx, haproxy]
modes: [http, handshake-rsa2048]
keepalive: [true]
sizes: ['128']
workers: [1, 2, 4, 8]
connections: 50
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

const THROUGHPUT: &str = "\
id: B5
title: throughput
about: for a test
contenders: [weir, nginx]
modes: [files-http]
keepalive: [true]
sizes: [100k, 1m]
workers: [1, 2]
connections: 50
full: { runs: 9, seconds: 20, warmup: 2 }
quick: { runs: 3, seconds: 1, warmup: 0.1 }
";

/// A plausible machine: each contender has a speed, pages cost by their size, and runs differ a little.
fn shown(who: Who, point: &Point, run: u32) -> Option<Shown> {
    let speed = match who {
        Who::Direct => 4.0,
        Who::Weir => 1.5,
        Who::Nginx => 1.0,
        Who::Haproxy => 0.9,
    };
    let bytes = weir_lab::scenario::bytes(&point.size).unwrap() as f64;
    let each = (20.0 + bytes / 2000.0) * if point.keepalive { 1.0 } else { 3.0 } / speed;
    let noise = 1.0 + f64::from(run) * 0.02;
    let most = f64::from(point.workers) * 1e6 / each * noise;
    let Some(Rate::PerSecond(wanted)) = point.rate else {
        return Some(Shown { rate: most, us: 50e6 / most, cpu_us: each * noise });
    };
    // Beyond the most, or when credits are spent, the queue grows as long as the run lasts.
    let spent = wanted == 2500.0 && run >= 16;
    let us = if wanted > most || spent { 3e5 } else { 500.0 + 100.0 * wanted / most };
    Some(Shown { rate: wanted.min(most), us, cpu_us: each * noise })
}

/// Chromium's flags: nothing of its own goes to the network either.
fn chromium(profile: &Path) -> Command {
    let mut command = Command::new("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.args(["--enable-logging=stderr", "--log-level=0", "--window-size=1300,2000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command
}

/// What a browser shows of a page: its document and all complaints, and the addresses that the page wanted.
fn opened(page: &Path) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("net.json");
    let mut command = chromium(&dir.path().join("profile"));
    command.arg(format!("--log-net-log={}", log.display())).arg(page);
    let (code, said) = weir_testkit::programs::run_for(command, Duration::from_secs(60)).unwrap();
    assert_eq!(code, 0, "{said}");
    let log = std::fs::read_to_string(&log).unwrap();
    // The browser asks for things of its own too; what a page of a file asks for carries the file's key.
    let ours = log.lines().filter(|l| l.contains("\"network_isolation_key\":\"file:"));
    let address = |l: &str| Some(l.split("\"url\":\"").nth(1)?.split('"').next()?.to_owned());
    let wanted = ours.filter_map(address).filter(|u| !u.starts_with("file:")).collect();
    (said, wanted)
}

/// Looks at every plot, and writes what it sees into the page.
const LOOK: &str = "<pre id=\"seen\"></pre><script>
const seen = [];
for (const plot of document.querySelectorAll('svg.plot')) {
  const frame = plot.getBoundingClientRect();
  const boxes = [...plot.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent, t]);
  const outside = boxes.filter(([b]) => b.left < frame.left - 1 || b.right > frame.right + 1
    || b.top < frame.top - 1 || b.bottom > frame.bottom + 1).map(b => b[1]);
  const ticks = boxes.filter(b => b[2].classList.contains('tick'));
  const touching = [];
  ticks.forEach(([a, at], i) => ticks.slice(i + 1).forEach(([b, bt]) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2) touching.push(at + '|' + bt);
  }));
  const marks = [...plot.querySelectorAll('.dot, .bar, .line')].filter(m => {
    const b = m.getBoundingClientRect();
    return b.width > 0 || b.height > 0;
  });
  seen.push({
    title: plot.getAttribute('aria-label'), width: frame.width, height: frame.height, outside, touching,
    marks: marks.length, ticks: ticks.length, tips: plot.querySelectorAll('title').length,
    coloured: marks.every(m => { const s = getComputedStyle(m); return s.fill !== 'rgb(0, 0, 0)' || s.stroke !== 'none'; }),
  });
}
document.getElementById('seen').textContent = JSON.stringify({
  plots: seen, fetched: performance.getEntriesByType('resource').length,
  wider: document.documentElement.scrollWidth > innerWidth + 1,
});
</script></body>";

#[test]
fn every_plot_is_drawn_and_nothing_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let settings = settings("A Processor", 4);
    fill(&out, &settings, WORKERS, &shown);
    for scenario in [PROXIES, RATES, BURST, SIZING, THROUGHPUT] {
        fill(&out, &settings, scenario, &shown);
    }
    let made = report::make(&out, &Prices::read(None).unwrap()).unwrap();
    what_it_found(&made);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();

    // As it is: no request, no complaint.
    let (said, wanted) = opened(&out.join("report.html"));
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(wanted.is_empty(), "{wanted:?}");

    // With a script that looks at it; the page's own policy would not let it run.
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let looked = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", LOOK);
    std::fs::write(out.join("looked.html"), looked).unwrap();
    let (dom, _) = opened(&out.join("looked.html"));
    assert!(!dom.contains("CONSOLE"), "{dom}");
    let seen = dom.split("<pre id=\"seen\">").nth(1).unwrap().split("</pre>").next().unwrap();
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["fetched"], 0);
    assert_eq!(seen["wider"], false, "the page scrolls sideways");
    let plots = seen["plots"].as_array().unwrap();
    assert_eq!(plots.len(), page.matches("<svg class=\"plot\"").count());
    assert!(plots.len() > 70, "{}", plots.len());
    for plot in plots {
        assert!(plot["width"].as_f64().unwrap() > 300.0 && plot["height"].as_f64().unwrap() > 80.0, "{plot}");
        assert!(plot["marks"].as_u64().unwrap() >= 1 && plot["ticks"].as_u64().unwrap() >= 3, "{plot}");
        assert!(plot["tips"].as_u64().unwrap() >= 1, "{plot}");
        assert_eq!(plot["outside"], serde_json::json!([]), "{plot}");
        assert_eq!(plot["touching"], serde_json::json!([]), "{plot}");
        assert_eq!(plot["coloured"], true, "{plot}");
    }
}

#[test]
fn a_page_that_fetches_or_complains_would_be_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bad.html");
    std::fs::write(&page, "<img src=\"http://example.invalid/a.png\"><script>nonsense.member</script>")
        .unwrap();
    let (said, wanted) = opened(&page);
    assert!(said.contains("CONSOLE") && said.contains("nonsense"), "{said}");
    assert!(wanted.iter().any(|u| u == "http://example.invalid/a.png"), "{wanted:?}");
}

/// What was put into the folder is what the report says of it.
fn what_it_found(report: &Report) {
    let chapter = |id: &str| report.scenarios.iter().find(|c| c.id == id).unwrap();
    // 25.1 µs a request ÷ 1.5, 1 and 0.9: 59,700, 39,800 and 35,800 requests a second, and 2% more in each further run.
    let b1 = chapter("B1");
    for (who, low, high) in [
        (Who::Weir, 50_000.0, 70_000.0),
        (Who::Nginx, 30_000.0, 50_000.0),
        (Who::Haproxy, 30_000.0, 40_000.0),
    ] {
        let knee = b1.knees.iter().find(|k| k.contender == who).unwrap().knee;
        assert_eq!(knee.place, Where::Found);
        assert!(low < knee.rate.median && knee.rate.median < high, "{who:?}: {knee:?}");
        assert!(knee.rate.low <= knee.rate.median && knee.rate.median <= knee.rate.high);
    }
    let found = |id: &str| chapter(id).findings.join("\n");
    assert!(found("B1").contains("HTTPS, 10 KB: knees"), "{}", found("B1"));
    assert!(found("B1").contains("Rate, Weir ÷ nginx: higher for HTTPS 1.50"), "{}", found("B1"));
    assert!(found("B2").contains("from run 17 of 20 on, the 95th percentile of weir"), "{}", found("B2"));
    assert!(found("B6").contains("published: 48,000 (NGINX, bare metal)"), "{}", found("B6"));
    assert!(found("B5").contains("Gbit/s here; published: 13.0"), "{}", found("B5"));
    assert!(found("B3").contains("points have no figures"), "64 workers: {}", found("B3"));
}
