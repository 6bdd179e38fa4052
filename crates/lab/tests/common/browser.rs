//! Pages in a browser.
//!
//! Owns: Chromium's flags, what a page asked for, what its plots look like.
//! Never: reaches the network.
//! Driven by: tests of pages.

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

/// Opens a page as it is, and once more with [`LOOK`]: nothing is fetched, nothing complains, and each of at least `least` plots is
/// drawn, with marks and ticks, none of its words outside or over another.
pub(crate) fn check(file: &Path, least: usize) {
    let page = std::fs::read_to_string(file).unwrap();
    let (said, wanted) = opened(file);
    assert!(!said.contains("CONSOLE"), "{said}");
    assert!(wanted.is_empty(), "{wanted:?}");

    // The page's own policy would not let the script run.
    let policy = page.find("<meta http-equiv").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let looked = format!("{}{}", &page[..policy], &page[end..]).replace("</body>", LOOK);
    let copy = file.with_file_name("looked.html");
    std::fs::write(&copy, looked).unwrap();
    let (dom, _) = opened(&copy);
    assert!(!dom.contains("CONSOLE"), "{dom}");
    let seen = dom.split("<pre id=\"seen\">").nth(1).unwrap().split("</pre>").next().unwrap();
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(seen["fetched"], 0);
    assert_eq!(seen["wider"], false, "the page scrolls sideways");
    let plots = seen["plots"].as_array().unwrap();
    assert_eq!(plots.len(), page.matches("<svg class=\"plot\"").count());
    assert!(plots.len() >= least, "{}", plots.len());
    for plot in plots {
        assert!(plot["width"].as_f64().unwrap() > 300.0 && plot["height"].as_f64().unwrap() > 80.0, "{plot}");
        assert!(plot["marks"].as_u64().unwrap() >= 1 && plot["ticks"].as_u64().unwrap() >= 3, "{plot}");
        assert!(plot["tips"].as_u64().unwrap() >= 1, "{plot}");
        assert_eq!(plot["outside"], serde_json::json!([]), "{plot}");
        assert_eq!(plot["touching"], serde_json::json!([]), "{plot}");
        assert_eq!(plot["coloured"], true, "{plot}");
    }
}
