// Figures of two documents: what happened between them, and how it is written.
// Nothing here touches the page, so that it can be tested without one.
"use strict";

const Figures = (() => {
  // The counts of `now` without those of `before`; a counter that began anew counts from zero.
  const since = (now, before) => {
    const old = new Map(before);
    const left = [];
    for (const [bound, count] of now) {
      const was = old.get(bound) || 0;
      if (count !== was) left.push([bound, count < was ? count : count - was]);
    }
    return left;
  };

  const total = (steps) => steps.reduce((sum, step) => sum + step[1], 0);

  // The quantile `q` (0 to 1) of steps, in microseconds: the middle of its step; null without any.
  const quantile = (steps, q) => {
    const all = total(steps);
    if (!all) return null;
    const rank = Math.max(1, Math.ceil(all * q));
    let seen = 0;
    for (const [bound, count] of steps) {
      seen += count;
      // A step is at most a sixteenth as wide as what is in it.
      if (seen >= rank) return bound < 32 ? bound : bound * (1 - 1 / 48);
    }
    return steps[steps.length - 1][0];
  };

  // Several distributions as one.
  const join = (all) => {
    const sum = new Map();
    for (const steps of all) for (const [bound, count] of steps) sum.set(bound, (sum.get(bound) || 0) + count);
    return [...sum].sort((a, b) => a[0] - b[0]);
  };

  const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);
  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value >= 1e9) return (value / 1e9).toFixed(digits(value / 1e9)) + " G";
    if (value >= 1e6) return (value / 1e6).toFixed(digits(value / 1e6)) + " M";
    if (value >= 1e5) return (value / 1e3).toFixed(0) + " k";
    if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
    return String(Math.round(value));
  };
  const rate = (value) => (value === null || value === undefined ? "–" : value > 0 && value < 10 ? value.toFixed(1) : number(value));
  const percent = (share) => {
    if (share === null || Number.isNaN(share)) return "–";
    const value = share * 100;
    return (value === 0 || value >= 10 ? value.toFixed(0) : value.toFixed(value < 0.1 ? 2 : 1)) + " %";
  };
  const bytes = (value) => {
    if (value === null || value === undefined) return "–";
    const units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let at = 0;
    while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
    return (at && value < 100 ? value.toFixed(1) : Math.round(value)) + " " + units[at];
  };
  // Of microseconds.
  const duration = (us) => {
    if (us === null || us === undefined) return "–";
    if (us < 1000) return Math.round(us) + " µs";
    if (us < 1e6) return (us / 1e3).toFixed(digits(us / 1e3)) + " ms";
    if (us < 6e7) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
    return span(us / 1e3);
  };
  // Of milliseconds, in the two largest units.
  const span = (ms) => {
    let seconds = Math.floor(ms / 1000);
    const parts = [];
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
      const whole = Math.floor(seconds / size);
      if (whole || (unit === "s" && !parts.length)) parts.push(whole + " " + unit);
      seconds -= whole * size;
    }
    return parts.slice(0, 2).join(" ");
  };

  return { since, total, quantile, join, number, rate, percent, bytes, duration, span };
})();

if (typeof module !== "undefined") module.exports = Figures;
