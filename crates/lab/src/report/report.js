// Hovering, hiding series, linear or logarithmic axes. The page reads without it.
(() => {
  const made = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };
  const tip = document.createElement('div');
  tip.className = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  for (const svg of document.querySelectorAll('svg.plot')) {
    // The browser's own hints come late, and only over the mark itself.
    for (const title of svg.querySelectorAll('title')) {
      if (title.textContent) title.parentNode.dataset.tip = title.textContent;
      title.remove();
    }
    const marks = [...svg.querySelectorAll('.dot[data-tip], .bar[data-tip]')];
    const lines = [...svg.querySelectorAll('.line[data-tip]')];
    svg.addEventListener('pointermove', event => {
      let near = null, best = 32;
      for (const mark of marks) {
        if (mark.closest('.off')) continue;
        const box = mark.getBoundingClientRect();
        const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const far = Math.hypot(x, y);
        if (far < best) [near, best] = [mark, far];
      }
      near = near || lines.find(line => line === event.target);
      for (const old of svg.querySelectorAll('.near')) if (old !== near) old.classList.remove('near');
      tip.hidden = !near;
      if (!near) return;
      near.classList.add('near');
      tip.textContent = near.dataset.tip;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + scrollX + 'px';
      tip.style.top = event.clientY + scrollY + 18 + 'px';
    });
    svg.addEventListener('pointerleave', () => {
      tip.hidden = true;
      for (const old of svg.querySelectorAll('.near')) old.classList.remove('near');
    });
  }
  for (const figure of document.querySelectorAll('figure')) {
    const keys = [...figure.querySelectorAll('.key[data-k]')];
    if (keys.length > 1) for (const key of keys) {
      key.setAttribute('role', 'button');
      key.setAttribute('aria-pressed', 'true');
      key.tabIndex = 0;
      key.title = 'hide or show';
      const toggle = () => {
        const off = key.classList.toggle('off');
        key.setAttribute('aria-pressed', String(!off));
        for (const part of figure.querySelectorAll('svg.plot [data-k="' + key.dataset.k + '"]')) part.classList.toggle('off', off);
      };
      key.addEventListener('click', toggle);
      key.addEventListener('keydown', event => {
        if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); toggle(); }
      });
    }
    const plots = [...figure.querySelectorAll('svg.plot[data-y]')];
    if (plots.length) axes(figure, plots);
  }
  // A button that lays the upright axis out the other way.
  function axes(figure, plots) {
    const button = document.createElement('button');
    button.type = 'button';
    const first = plots[0].dataset.y.split(' ')[0];
    let other = false;
    const name = () => { button.textContent = (first === 'log') !== other ? 'linear axis' : 'logarithmic axis'; };
    name();
    button.addEventListener('click', () => { other = !other; plots.forEach(plot => lay(plot, other)); name(); });
    figure.querySelector('figcaption').append(button);
  }
  function lay(plot, other) {
    const [kind, ...numbers] = plot.dataset.y.split(' ');
    const [from, to, start, end] = numbers.map(Number);
    const log = kind === 'log';
    const share = y => (y - start) / (end - start);
    const value = y => log ? from * Math.pow(to / from, share(y)) : from + (to - from) * share(y);
    const values = [...plot.querySelectorAll('.dot')].map(dot => value(+dot.dataset.v))
      .concat([...plot.querySelectorAll('.line')].flatMap(line => points(line).map(point => value(point[1]))))
      .filter(v => v > 1e-9);
    const least = values.length ? Math.min(...values) : 1;
    // As it was, or: from 0 where it was logarithmic, from the least of all where it was linear.
    const low = other ? (log ? 0 : least / 1.15) : from;
    const flat = log === other;
    const place = v => {
      const part = flat ? (v - low) / (to - low) : Math.log(Math.max(v, low) / low) / Math.log(to / low);
      return start + (end - start) * Math.min(Math.max(part, 0), 1);
    };
    const moved = y => (other ? place(value(y)) : y).toFixed(1);
    for (const line of plot.querySelectorAll('.line, .whisker')) {
      line.dataset.d = line.dataset.d || line.getAttribute('d');
      line.setAttribute('d', line.dataset.d
        .replace(/([ML])([\d.-]+) ([\d.-]+)/g, (all, letter, x, y) => letter + x + ' ' + moved(+y))
        .replace(/V([\d.-]+)/g, (all, y) => 'V' + moved(+y)));
    }
    for (const dot of plot.querySelectorAll('.dot')) {
      dot.setAttribute('transform', 'translate(0 ' + (moved(+dot.dataset.v) - dot.dataset.v).toFixed(1) + ')');
    }
    const grid = plot.querySelector('.upright');
    grid.original = grid.original || [...grid.childNodes];
    grid.replaceChildren(...(other ? ticks(grid, low, to, flat, place) : grid.original));
  }
  function points(line) {
    const d = line.dataset.d || line.getAttribute('d');
    return [...d.matchAll(/[ML]([\d.-]+) ([\d.-]+)/g)].map(part => [+part[1], +part[2]]);
  }
  function ticks(grid, low, high, flat, place) {
    const [left, right] = grid.dataset.x.split(' ').map(Number);
    let at = [];
    if (flat) {
      const rough = (high - low) / 6, unit = Math.pow(10, Math.floor(Math.log10(rough)));
      const step = [1, 2, 5, 10].map(n => n * unit).find(n => n >= rough);
      for (let v = 0; v <= high; v += step) if (v >= low) at.push(v);
    } else {
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
        for (const n of [1, 2, 5]) at.push(n * Math.pow(10, power));
      }
      at = at.filter(v => v >= low && v <= high);
      if (at.length > 8) at = at.filter(v => Math.abs(Math.log10(v) % 1) < 1e-9);
    }
    const short = v => v >= 1e6 ? +(v / 1e6).toPrecision(3) + 'M' : v >= 1e4 ? +(v / 1e3).toPrecision(3) + 'k' : String(+v.toPrecision(3));
    return at.flatMap(v => {
      const y = place(v);
      const text = made('text', { class: 'tick end', x: left - 6, y: y + 4 });
      text.textContent = short(v);
      return [made('path', { class: 'grid', d: 'M' + left + ' ' + y + 'H' + right }), text];
    });
  }
})();
