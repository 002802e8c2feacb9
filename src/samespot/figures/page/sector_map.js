"use strict";
// A small map, north up, of who stood where and looked where. A camera is [east, north, heading, opening, name, colour].
const sectorMap = (() => {
  const REACH = 2.5; // radii from the first camera up to which another is drawn in its place; farther ones are arrows
  let clips = 0;

  function node(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // heading in degrees clockwise from north; the y axis of svg points south
  function outline([east, north, heading, opening], radius) {
    if (opening >= 360) {
      return `M${east - radius},${-north}a${radius},${radius} 0 1 1 ${2 * radius},0a${radius},${radius} 0 1 1 ${-2 * radius},0Z`;
    }
    const [from, to] = [-0.5, 0.5].map((side) => ((heading + side * opening) * Math.PI) / 180);
    const at = (turn) => `${east + radius * Math.sin(turn)},${-(north + radius * Math.cos(turn))}`;
    return `M${east},${-north}L${at(from)}A${radius},${radius} 0 ${opening > 180 ? 1 : 0} 1 ${at(to)}Z`;
  }

  function reachOf([east, north, heading, opening], radius) {
    const points = [[east, north]];
    for (let i = 0; opening && i <= 16; i++) {
      const turn = ((heading + (i / 16 - 0.5) * opening) * Math.PI) / 180;
      points.push([east + radius * Math.sin(turn), north + radius * Math.cos(turn)]);
    }
    return points;
  }

  // roomy: with space around the first camera for arrows to far ones
  function windowOf(cameras, radius, roomy) {
    const points = cameras.flatMap((camera) => reachOf(camera, radius));
    if (roomy) for (const side of [-0.9, 0.9]) points.push([cameras[0][0] + side * radius, cameras[0][1] + side * radius]);
    const low = [0, 1].map((i) => Math.min(...points.map((p) => p[i])));
    const high = [0, 1].map((i) => Math.max(...points.map((p) => p[i])));
    const side = 1.18 * Math.max(high[0] - low[0], high[1] - low[1], radius);
    return { west: (low[0] + high[0] - side) / 2, south: (low[1] + high[1] - side) / 2, side };
  }

  function sector(camera, radius, dot) {
    const colour = `var(--${camera[5]})`;
    const group = node("g", {});
    if (camera[3]) {
      group.append(node("path", {
        d: outline(camera, radius), fill: colour, "fill-opacity": 0.13, stroke: colour,
        "stroke-width": 1.6, "vector-effect": "non-scaling-stroke",
      }));
    }
    group.append(node("circle", { cx: camera[0], cy: -camera[1], r: dot, fill: colour }));
    return group;
  }

  function shared(svg, a, b, radius) {
    const id = `shared-${clips++}`;
    const clip = node("clipPath", { id });
    clip.append(node("path", { d: outline(a, radius) }));
    svg.append(clip, node("path", {
      d: outline(b, radius), "clip-path": `url(#${id})`, fill: "var(--shared)", "fill-opacity": 0.45,
    }));
  }

  // draws it at once, and returns what writes its distance
  function arrow(svg, camera, home, view, taken) {
    const [dx, dy] = [camera[0] - home[0], camera[1] - home[1]];
    const far = Math.hypot(dx, dy);
    const edges = [
      dx > 0 ? (view.west + view.side - home[0]) / dx : dx < 0 ? (view.west - home[0]) / dx : Infinity,
      dy > 0 ? (view.south + view.side - home[1]) / dy : dy < 0 ? (view.south - home[1]) / dy : Infinity,
    ];
    const rim = 0.97 * Math.min(...edges);
    const tip = [home[0] + rim * dx, home[1] + rim * dy];
    const unit = [dx / far, dy / far];
    const size = 0.07 * view.side;
    const back = [tip[0] - size * unit[0], tip[1] - size * unit[1]];
    const wing = 0.5 * size;
    const corners = [tip, [back[0] - wing * unit[1], back[1] + wing * unit[0]], [back[0] + wing * unit[1], back[1] - wing * unit[0]]];
    const colour = `var(--${camera[5]})`;
    svg.append(node("polygon", { points: corners.map(([x, y]) => `${x},${-y}`).join(" "), fill: colour }));
    const words = `${camera[4] ? `${camera[4]}: ` : ""}${far >= 1000 ? `${(far / 1000).toFixed(1)} km` : `${far.toFixed(0)} m`}`;
    taken.push(boxAt((tip[0] + back[0]) / 2, (tip[1] + back[1]) / 2, 0.8 * size, 0.8 * size));
    return () => label(svg, tip[0] - 2.1 * size * unit[0], tip[1] - 2.1 * size * unit[1], words, colour, view, taken);
  }

  // a box is [west, south, east, north]
  const boxAt = (x, y, wide, tall) => [x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2];

  function covered(box, taken) {
    const sides = ([west, south, east, north]) => [Math.min(box[2], east) - Math.max(box[0], west), Math.min(box[3], north) - Math.max(box[1], south)];
    return taken.map(sides).reduce((sum, [wide, tall]) => sum + Math.max(0, wide) * Math.max(0, tall), 0);
  }

  // words at the free place nearest to where they are wished, inside the map; what is taken grows by their box
  function label(svg, x, y, words, colour, view, taken) {
    const size = 0.068 * view.side;
    const [wide, tall] = [0.62 * size * words.length + 0.5 * size, 1.25 * size];
    const within = (value, low, room) => Math.min(Math.max(value, low + room / 2), low + view.side - room / 2);
    let best = null;
    for (let ring = 0; ring <= 8 && !(best && best.covered === 0); ring++) {
      for (let i = 0; i < (ring ? 12 : 1); i++) {
        const at = [
          within(x + 0.06 * ring * view.side * Math.cos((i * Math.PI) / 6), view.west, wide),
          within(y + 0.06 * ring * view.side * Math.sin((i * Math.PI) / 6), view.south, tall),
        ];
        const box = boxAt(...at, wide, tall);
        const hidden = covered(box, taken);
        if (!best || hidden < best.covered) best = { at, box, covered: hidden };
      }
    }
    taken.push(best.box);
    svg.append(node("text", {
      x: best.at[0], y: -best.at[1], fill: colour, "font-size": size, "font-weight": 650, "text-anchor": "middle", "dominant-baseline": "central",
    }, words));
  }

  function scale(svg, view, taken) {
    const most = 0.35 * view.side;
    const step = 10 ** Math.floor(Math.log10(most));
    const length = Math.max(...[1, 2, 5].map((f) => f * step).filter((one) => one <= most));
    const [wide, tall] = [Math.max(length, 0.25 * view.side), 0.1 * view.side];
    const corners = [[0.05, 0.06], [0.95 - wide / view.side, 0.06], [0.05, 0.87], [0.95 - wide / view.side, 0.87]]
      .map(([east, north]) => [view.west + east * view.side, view.south + north * view.side]);
    const hidden = (at) => covered([at[0], at[1], at[0] + wide, at[1] + tall], taken);
    const [x, y] = corners.find((at) => hidden(at) === 0) || corners[0];
    svg.append(node("rect", {
      x: x - 0.015 * view.side, y: -y - 0.095 * view.side, width: wide + 0.03 * view.side, height: 0.11 * view.side, fill: "var(--panel)", "fill-opacity": 0.85,
    }));
    svg.append(node("path", { d: `M${x},${-y}h${length}`, stroke: "var(--ink)", "stroke-width": 2, "vector-effect": "non-scaling-stroke" }));
    svg.append(node("text", { x, y: -y - 0.03 * view.side, fill: "var(--ink)", "font-size": 0.06 * view.side }, `${length} m`));
    taken.push([x, y, x + wide, y + tall]);
  }

  function draw(svg, cameras, ruleRadius) {
    svg.replaceChildren();
    const home = cameras[0];
    const away = (camera) => Math.hypot(camera[0] - home[0], camera[1] - home[1]);
    const radius = ruleRadius || Math.max(10, ...cameras.slice(1).map(away));
    const near = cameras.filter((camera) => away(camera) <= REACH * radius);
    const view = windowOf(near, ruleRadius ? radius : 0.4 * radius, near.length < cameras.length);
    svg.setAttribute("viewBox", `${view.west} ${-(view.south + view.side)} ${view.side} ${view.side}`);
    if (cameras.length === 2 && near.length === 2 && near[0][3] && near[1][3]) shared(svg, near[0], near[1], radius);
    for (const camera of [...near].reverse()) svg.append(sector(camera, radius, 0.022 * view.side));
    const taken = near.map((camera) => boxAt(camera[0], camera[1], 0.05 * view.side, 0.05 * view.side));
    scale(svg, view, taken);
    const far = cameras.filter((camera) => !near.includes(camera)).map((camera) => arrow(svg, camera, home, view, taken));
    for (const camera of near.slice(1)) {
      if (!camera[4]) continue;
      const turn = (camera[2] * Math.PI) / 180;
      const ahead = camera[3] && camera[3] < 360 ? 0.72 * radius : 0.1 * view.side;
      const [x, y] = [camera[0] + ahead * Math.sin(turn), camera[1] + ahead * Math.cos(turn)];
      label(svg, x, y, camera[4], `var(--${camera[5]})`, view, taken);
    }
    far.forEach((write) => write());
  }

  return { draw, node, outline };
})();
