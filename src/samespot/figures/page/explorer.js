"use strict";
// Choose a query and a map photo; see both, what they share, and what each run expects of them.
function beginExplorer(photos) {
  const source = document.getElementById("explorer-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const at = (id) => document.getElementById(id);
  const { node, outline } = sectorMap;
  const map = at("pair-map");
  const radius = data.rule ? data.rule.radius : 0;
  const lists = {};
  let town, query = 0, place = 0, view, fitted, turn = {};

  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

  function decode(raw) {
    const share = (text) => {
      if (!text) return null;
      const steps = bytes(text);
      return (q, p) => { const step = steps[q * raw.places.name.length + p]; return step === 255 ? NaN : step / data.steps; };
    };
    const apart = (text) => {
      const steps = new DataView(bytes(text).buffer);
      return (q, p) => { const step = steps.getUint16(2 * (q * raw.places.name.length + p), true); return step === 65535 ? NaN : step / data.fine; };
    };
    return {
      ...raw, label: share(raw.label), truth: share(raw.truth),
      distance: raw.distance.map(apart), predicted: raw.predicted.map(share),
    };
  }

  function camera(side, row, name, colour) {
    const heading = side.heading[row];
    const opening = !data.rule ? 0 : side.pano[row] ? 360 : heading === null ? 0 : data.rule.theta;
    return [side.east[row], side.north[row], heading === null ? 0 : heading, opening, name, colour];
  }

  const known = (side, row) => side.east[row] !== null && side.north[row] !== null;

  // ---- lists of pairs worth a look ----

  function everyPair() {
    const pairs = [];
    for (let q = 0; q < town.queries.name.length; q++) {
      for (let p = 0; p < town.places.name.length; p++) pairs.push([q, p]);
    }
    return pairs;
  }

  // the best pair of each query, the most telling first
  function ranked(score) {
    const best = new Map();
    for (const [q, p] of everyPair()) {
      const value = score(q, p);
      if (Number.isFinite(value) && (!best.has(q) || value > best.get(q)[2])) best.set(q, [q, p, value]);
    }
    return [...best.values()].sort((a, b) => b[2] - a[2]).slice(0, 60);
  }

  const scores = {
    missed: (q, p) => (town.label(q, p) >= 0.5 ? town.distance[0](q, p) : NaN),
    mistaken: (q, p) => (town.label(q, p) === 0 && !(town.truth && town.truth(q, p) > 0) ? -town.distance[0](q, p) : NaN),
    disagree: (q, p) => {
      const truth = town.label(q, p);
      const [a, b] = town.predicted;
      return Math.abs(Math.abs(a(q, p) - truth) - Math.abs(b(q, p) - truth));
    },
  };

  function next(mode) {
    if (mode === "random") {
      const q = Math.floor(Math.random() * town.queries.name.length);
      const every = town.places.name.map((_, p) => p);
      const alike = town.label ? every.filter((p) => town.label(q, p) > 0) : [];
      const from = alike.length && Math.random() < 0.7 ? alike : every;
      return choose(q, from[Math.floor(Math.random() * from.length)]);
    }
    const key = `${town.name}/${mode}`;
    lists[key] = lists[key] || ranked(scores[mode]);
    const list = lists[key];
    if (!list.length) return undefined;
    turn[key] = ((turn[key] ?? -1) + 1) % list.length;
    return choose(list[turn[key]][0], list[turn[key]][1]);
  }

  function nearest(by) {
    const score = by === "label" ? (p) => -town.label(query, p) : (p) => town.distance[Number(by)](query, p);
    let best = -1;
    for (let p = 0; p < town.places.name.length; p++) {
      if (town.places.name[p] === town.queries.name[query]) continue;
      if (Number.isFinite(score(p)) && (best < 0 || score(p) < score(best))) best = p;
    }
    if (best >= 0) choose(query, best);
  }

  // ---- what is chosen ----

  function choose(q, p) {
    [query, place] = [q, p];
    at("pair-query").value = q;
    at("pair-place").value = p;
    show("photo-query", town.queries, q, "query");
    show("photo-place", town.places, p, "map photo");
    const both = known(town.queries, q) && known(town.places, p);
    at("pair-sectors").style.display = both ? "" : "none";
    if (both) sectorMap.draw(at("pair-sectors"), [camera(town.queries, q, "", "query"), camera(town.places, p, "map", "map")], radius);
    readout(both);
    drawMap();
  }

  function show(id, side, row, role) {
    const image = at(id);
    const number = side.photo[row];
    image.alt = `${role} ${side.name[row]}${number < 0 ? ", which is not on this page" : ""}`;
    if (number < 0) image.removeAttribute("src"); else image.src = photos[number];
  }

  function readout(both) {
    const rows = [];
    if (town.label) rows.push(["label ψ", town.label(query, place), "shared", ""]);
    if (town.truth) rows.push(["true overlap", town.truth(query, place), "ink", ""]);
    data.runs.forEach((run, i) => {
      const apart = town.distance[i](query, place);
      rows.push([`${run.name} ψ̂`, town.predicted[i](query, place), run.colour, Number.isFinite(apart) ? `d ${apart.toFixed(3)}` : "photo not readable"]);
    });
    const list = document.createElement("dl");
    list.className = "bars";
    for (const [name, value, colour, unit] of rows) {
      const [term, bar, number] = ["dt", "dd", "dd"].map((tag) => document.createElement(tag));
      term.textContent = name;
      if (unit) { const small = document.createElement("span"); small.className = "unit"; small.textContent = unit; term.append(small); }
      bar.className = "bar";
      bar.setAttribute("aria-hidden", "true");
      const fill = document.createElement("i");
      fill.style.width = `${100 * (value || 0)}%`;
      fill.style.background = `var(--${colour})`;
      bar.append(fill);
      number.textContent = Number.isFinite(value) ? value.toFixed(2) : "–";
      list.append(term, bar, number);
    }
    const words = document.createElement("p");
    words.className = "words";
    words.textContent = both ? apartInWords() + posesInWords() : "";
    at("pair-readout").replaceChildren(list, words);
  }

  function apartInWords() {
    const [a, b] = [camera(town.queries, query), camera(town.places, place)];
    const metres = Math.hypot(a[0] - b[0], a[1] - b[1]);
    const far = metres < 10 ? metres.toFixed(1) : metres.toFixed(0);
    if (town.queries.heading[query] === null || town.places.heading[place] === null) return `${far} m apart`;
    const turned = Math.abs(((a[2] - b[2] + 540) % 360) - 180);
    return `${far} m apart, turned by ${turned.toFixed(0)}°`;
  }

  // ---- the map of all photos ----

  function fit() {
    const size = map.getBoundingClientRect();
    const points = [...town.dots];
    for (const side of [town.queries, town.places]) side.east.forEach((x, i) => known(side, i) && points.push([x, side.north[i]]));
    const low = [0, 1].map((i) => points.reduce((least, p) => Math.min(least, p[i]), Infinity));
    const high = [0, 1].map((i) => points.reduce((most, p) => Math.max(most, p[i]), -Infinity));
    // a map that is not laid out yet has no width; it is fitted again as soon as it has
    const metres = 1.1 * Math.max((high[0] - low[0]) / Math.max(size.width, 1), (high[1] - low[1]) / Math.max(size.height, 1), 1e-3);
    return { x: (low[0] + high[0]) / 2, y: (low[1] + high[1]) / 2, metres };
  }

  function drawMap() {
    if (!view) return;
    const size = map.getBoundingClientRect();
    const [wide, tall] = [size.width * view.metres, size.height * view.metres];
    map.setAttribute("viewBox", `${view.x - wide / 2} ${-view.y - tall / 2} ${wide} ${tall}`);
    map.classList.toggle("zoomed", view.metres < 0.99 * fitted.metres);
    const px = view.metres;
    const parts = [];
    parts.push(node("path", {
      d: town.dots.map(([x, y]) => `M${x},${-y}h0`).join(""), stroke: "var(--grey)", "stroke-opacity": 0.45,
      "stroke-width": 2.6 * px, "stroke-linecap": "round",
    }));
    if (at("all-sectors").checked && radius) {
      for (const [side, colour] of [[town.places, "map"], [town.queries, "query"]]) {
        const paths = side.east.map((_, i) => (known(side, i) && camera(side, i)[3] ? outline(camera(side, i), radius) : "")).join("");
        parts.push(node("path", { d: paths, fill: `var(--${colour})`, "fill-opacity": 0.06, stroke: `var(--${colour})`, "stroke-opacity": 0.35, "stroke-width": px }));
      }
    }
    town.places.east.forEach((x, i) => known(town.places, i) && parts.push(node("rect", {
      x: x - 3 * px, y: -town.places.north[i] - 3 * px, width: 6 * px, height: 6 * px, fill: "var(--map)", stroke: "var(--paper)", "stroke-width": 0.7 * px,
    })));
    town.queries.east.forEach((x, i) => known(town.queries, i) && parts.push(node("circle", {
      cx: x, cy: -town.queries.north[i], r: 3.6 * px, fill: "var(--query)", stroke: "var(--paper)", "stroke-width": 0.7 * px,
    })));
    for (const [side, row, colour] of [[town.places, place, "map"], [town.queries, query, "query"]]) {
      if (!known(side, row)) continue;
      const chosen = camera(side, row);
      const paint = `var(--${colour})`;
      if (chosen[3]) parts.push(node("path", { d: outline(chosen, radius), fill: paint, "fill-opacity": 0.28, stroke: paint, "stroke-width": 1.6 * px }));
      const ring = { fill: paint, stroke: "var(--ink)", "stroke-width": 2 * px };
      if (colour === "map") parts.push(node("rect", { x: chosen[0] - 5.5 * px, y: -chosen[1] - 5.5 * px, width: 11 * px, height: 11 * px, ...ring }));
      else parts.push(node("circle", { cx: chosen[0], cy: -chosen[1], r: 6 * px, ...ring }));
    }
    data.runs.forEach((run, i) => {
      const pose = poseOf(i);
      if (!pose) return;
      const paint = `var(--${run.colour})`;
      const line = { fill: "none", stroke: paint, "stroke-width": 2 * px };
      if (known(town.queries, query)) {
        parts.push(node("path", {
          d: `M${pose[0]},${-pose[1]}L${town.queries.east[query]},${-town.queries.north[query]}`, ...line, "stroke-dasharray": `${3 * px} ${3 * px}`,
        }));
      }
      parts.push(node("path", { d: frustum(pose, 26 * px), ...line, "stroke-linejoin": "round" }));
    });
    map.replaceChildren(...parts);
  }

  // where a run's pose of the chosen query lies: east, north, heading, and how far it is off in metres and degrees
  const poseOf = (run) => (town.poses && town.poses[run] ? town.poses[run][query] : null);

  function frustum([east, north, heading], length) {
    const [from, to] = [-30, 30].map((side) => ((heading + side) * Math.PI) / 180);
    const end = (turn) => `${east + length * Math.sin(turn)},${-(north + length * Math.cos(turn))}`;
    return `M${east},${-north}L${end(from)}L${end(to)}Z`;
  }

  function posesInWords() {
    return data.runs.map((run, i) => {
      const pose = poseOf(i);
      if (!pose) return "";
      const off = pose[3] < 1 ? `${(100 * pose[3]).toFixed(0)} cm` : `${pose[3].toFixed(1)} m`;
      return `; ${run.name}: the pose is ${off} and ${pose[4].toFixed(1)}° off`;
    }).join("");
  }

  function zoom(factor) {
    view.metres = Math.min(fitted.metres, Math.max(fitted.metres / 40, view.metres * factor));
    if (view.metres >= fitted.metres) view = { ...fitted };
    else if (factor < 1 && known(town.queries, query)) {
      const weight = 0.6; // towards the chosen query, which is what one wants to see closer
      view.x += weight * (town.queries.east[query] - view.x);
      view.y += weight * (town.queries.north[query] - view.y);
    }
    drawMap();
  }

  function pick(event) {
    const size = map.getBoundingClientRect();
    const x = view.x + (event.clientX - size.left - size.width / 2) * view.metres;
    const y = view.y - (event.clientY - size.top - size.height / 2) * view.metres;
    let best = [26 * view.metres, null, -1];
    for (const side of [town.queries, town.places]) {
      side.east.forEach((east, i) => {
        const far = known(side, i) ? Math.hypot(east - x, side.north[i] - y) : Infinity;
        if (far < best[0]) best = [far, side, i];
      });
    }
    if (best[1] === town.queries) choose(best[2], place);
    else if (best[1]) choose(query, best[2]);
  }

  function listen() {
    let held = null;
    map.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false }; });
    map.addEventListener("pointermove", (event) => {
      if (!held || !map.classList.contains("zoomed")) return;
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(dx, dy) < 6) return;
      if (!held.moved) map.setPointerCapture(event.pointerId);
      held.moved = true;
      view = { ...view, x: held.view.x - dx * view.metres, y: held.view.y + dy * view.metres };
      drawMap();
    });
    map.addEventListener("pointerup", (event) => { if (held && !held.moved) pick(event); held = null; });
    map.addEventListener("pointercancel", () => { held = null; });
    new ResizeObserver(() => {
      if (!fitted) return; // of no known place
      const whole = !view || view.metres >= 0.99 * fitted.metres;
      fitted = fit();
      if (whole) view = { ...fitted };
      drawMap();
    }).observe(map);
    const explorer = at("explorer");
    explorer.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.mode) next(button.dataset.mode);
      else if (button.dataset.best) nearest(button.dataset.best);
      else if (button.dataset.zoom === "all") { view = { ...fitted }; drawMap(); }
      else if (button.dataset.zoom) zoom(button.dataset.zoom === "in" ? 1 / 1.8 : 1.8);
    });
    at("pair-query").addEventListener("change", (event) => choose(Number(event.target.value), place));
    at("pair-place").addEventListener("change", (event) => choose(query, Number(event.target.value)));
    at("all-sectors").addEventListener("change", drawMap);
    if (at("pair-case")) at("pair-case").addEventListener("change", (event) => enter(Number(event.target.value)));
  }

  // what all names begin with, up to a slash, says nothing
  function sharedFolder(names) {
    let folder = names[0].slice(0, names[0].lastIndexOf("/") + 1);
    while (folder && !names.every((name) => name.startsWith(folder))) folder = folder.slice(0, folder.slice(0, -1).lastIndexOf("/") + 1);
    return folder.length;
  }

  function fill(select, names, from) {
    select.replaceChildren(...names.map((name, i) => new Option(name.slice(from), i)));
  }

  // a first pair that shows what the page is about: photos that share a good part, not all
  function telling() {
    if (!town.label) return [0, 0];
    const wished = (q, p) => Math.abs(town.label(q, p) - 0.6) + (town.queries.photo[q] < 0 || town.places.photo[p] < 0 ? 9 : 0);
    return everyPair().reduce((best, pair) => (wished(...pair) < wished(...best) ? pair : best));
  }

  function enter(number) {
    town = decode(data.cases[number]);
    const folder = sharedFolder([...town.queries.name, ...town.places.name]);
    fill(at("pair-query"), town.queries.name, folder);
    fill(at("pair-place"), town.places.name, folder);
    const placed = town.queries.east.some((_, i) => known(town.queries, i)) || town.places.east.some((_, i) => known(town.places, i));
    document.querySelector(".town").style.display = placed ? "" : "none";
    view = fitted = placed ? fit() : undefined;
    if (view) view = { ...fitted };
    choose(...telling());
  }

  enter(0);
  listen();
}
