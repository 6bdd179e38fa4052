//! Pages in a browser.
//!
//! Owns: Chromium's flags, what a page asked for, what its plots look like.
//! Never: reaches the network.
//! Driven by: tests of pages.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

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
pub(crate) fn opened(page: &Path) -> (String, Vec<String>) {
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
  if (!frame.width) continue;
  const boxes = [...plot.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent, t]);
  const outside = boxes.filter(([b]) => b.left < frame.left - 1 || b.right > frame.right + 1
    || b.top < frame.top - 1 || b.bottom > frame.bottom + 1).map(b => b[1]);
  const ticks = boxes.filter(b => b[2].classList.contains('tick'));
  const touching = [];
  boxes.forEach(([a, at], i) => boxes.slice(i + 1).forEach(([b, bt]) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2) touching.push(at + '|' + bt);
  }));
  const marks = [...plot.querySelectorAll('.dot, .bar, .line')].filter(m => {
    const b = m.getBoundingClientRect();
    return b.width > 0 || b.height > 0;
  });
  seen.push({
    title: plot.getAttribute('aria-label'), width: frame.width, height: frame.height, outside, touching,
    marks: marks.length, ticks: ticks.length, tips: plot.querySelectorAll('[data-tip]').length,
    letters: Math.min(...boxes.map(([b]) => b.height)),
    coloured: marks.every(m => { const s = getComputedStyle(m); return s.fill !== 'rgb(0, 0, 0)' || s.stroke !== 'none'; }),
  });
}
document.getElementById('seen').textContent = JSON.stringify({
  plots: seen, fetched: performance.getEntriesByType('resource').length,
  wider: document.documentElement.scrollWidth > innerWidth + 1, width: innerWidth,
  scrolls: [...document.querySelectorAll('.wide')].filter(w => w.scrollWidth > w.clientWidth + 1).length,
});
</script></body>";

/// The same page in a frame as wide as a telephone: a browser's window is wider than that.
const TELEPHONE: &str = "<!doctype html><body style=\"margin:0\"><iframe id=\"in\" style=\"width:400px;height:2000px;border:0\"></iframe>\
<pre id=\"seen\"></pre><script>
const inside = document.getElementById('in');
inside.addEventListener('load', () => {
  document.getElementById('seen').textContent = inside.contentDocument.getElementById('seen').textContent;
});
inside.srcdoc = new TextDecoder().decode(Uint8Array.from(atob('PAGE'), c => c.charCodeAt(0)));
</script></body>";

/// Opens a page as it is, and twice more with [`LOOK`], in a wide window and as narrow as a telephone: nothing is fetched,
/// nothing complains, and each of at least `least` plots is drawn, with marks and ticks, none of its words outside or over
/// another, all as large as can be read.
pub(crate) fn check(file: &Path, least: usize) {
    let page = std::fs::read_to_string(file).unwrap();
    let (said, wanted) = opened(file);
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(wanted.is_empty(), "{wanted:?}");
    assert!(said.contains("class=\"tip\""), "the page's own script may run");

    // The page's own policy would not let another script run.
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let looked = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", LOOK);
    let telephone = TELEPHONE.replace("PAGE", &BASE64_STANDARD.encode(&looked));
    for (name, text) in [("looked.html", looked), ("telephone.html", telephone)] {
        let copy = file.with_file_name(name);
        std::fs::write(&copy, text).unwrap();
        let (dom, _) = opened(&copy);
        assert!(!dom.contains("CONSOLE"), "{dom}");
        let seen = dom.rsplit("<pre id=\"seen\">").next().unwrap().split("</pre>").next().unwrap();
        let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let seen: serde_json::Value =
            serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{name}: {error}: {seen:.300}"));
        look_at(name, &seen, least);
        let drawn = seen["plots"].as_array().unwrap().len();
        assert_eq!(drawn * 2, page.matches("<svg class=\"plot ").count(), "each is drawn for two widths");
    }
}

fn look_at(name: &str, seen: &serde_json::Value, least: usize) {
    assert_eq!(seen["fetched"], 0);
    assert_eq!(seen["wider"], false, "{name}: the page scrolls sideways");
    let narrow = seen["width"].as_f64().unwrap() < 500.0;
    assert!(!narrow || seen["scrolls"] == 0, "{name}: tables are cards where there is no room");
    let plots = seen["plots"].as_array().unwrap();
    assert!(plots.len() >= least, "{}", plots.len());
    for plot in plots {
        assert!(plot["width"].as_f64().unwrap() > 300.0 && plot["height"].as_f64().unwrap() > 80.0, "{plot}");
        assert!(plot["marks"].as_u64().unwrap() >= 1 && plot["ticks"].as_u64().unwrap() >= 3, "{plot}");
        assert!(plot["tips"].as_u64().unwrap() >= 1, "{plot}");
        assert!(plot["letters"].as_f64().unwrap() > 10.0, "{name}: {plot}");
        assert_eq!(plot["outside"], serde_json::json!([]), "{name}: {plot}");
        assert_eq!(plot["touching"], serde_json::json!([]), "{name}: {plot}");
        assert_eq!(plot["coloured"], true, "{plot}");
    }
}
