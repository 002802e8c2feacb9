// The map, north up, in metres: all cameras, the matches, the answer. Mouse, touch and keyboard move and zoom it.
import { still } from "./dom.js";

const OPENING = 60; // [deg] of a camera's sign; its true field of view is not known
const SIGN = 7; // [m] long, as far as that is between the limits in pixels
const SIGN_LEAST = 6, SIGN_MOST = 26; // [pixels] smaller ones are dots
const LEFT = 30, RIGHT = 64, ABOVE = 44; // [pixels] kept free when the map goes somewhere by itself
const CLOSEST = 0.02; // [m] a pixel
const turn = (degrees) => ((degrees - 90) * Math.PI) / 180; // of the canvas, whose y points south

export class MapView {
  constructor(canvas, { pick, moved }) {
    Object.assign(this, { canvas, pick, moved });
    this.pen = canvas.getContext("2d");
    this.cameras = null;
    this.scene = { answers: [], chosen: 0 };
    this.lit = null; // the id of the camera that the pointer or focus is on in the list
    this.held = new Map(); // pointers on the map
    this.listen();
  }

  get size() { return { wide: this.canvas.clientWidth, tall: this.canvas.clientHeight }; }

  setCameras(cameras) {
    this.cameras = cameras;
    const { easting, northing } = cameras;
    const ends = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
    const [[west, east], [south, north]] = easting.length ? [ends(easting), ends(northing)] : [[-50, 50], [-50, 50]];
    this.corners = [[west, south], [east, north]];
    this.fit();
  }

  setScene(scene) {
    this.scene = scene;
    this.draw();
  }

  light(id) {
    this.lit = id;
    this.draw();
  }

  // ---- what is seen ----

  // { x, y, scale }: metres in the middle, metres a pixel; the buttons and the scale bar keep their room
  around(points) {
    const { wide, tall } = this.size;
    const [low, high] = [[Infinity, Infinity], [-Infinity, -Infinity]];
    for (const point of points) {
      for (const i of [0, 1]) { low[i] = Math.min(low[i], point[i]); high[i] = Math.max(high[i], point[i]); }
    }
    const scale = Math.max((high[0] - low[0]) / Math.max(wide - LEFT - RIGHT, 1), (high[1] - low[1]) / Math.max(tall - 2 * ABOVE, 1), CLOSEST);
    return { x: (low[0] + high[0] + (RIGHT - LEFT) * scale) / 2, y: (low[1] + high[1]) / 2, scale };
  }

  whole() { return this.around(this.corners); }

  limited(scale) { return Math.min(1.6 * this.whole().scale, Math.max(CLOSEST, scale)); }

  fit() {
    if (this.cameras) this.go(this.whole(), false, true);
  }

  show(points) { this.go(this.around(points), true); }

  // whole: and stay fitted when the window changes
  go(view, smoothly, whole = false) {
    const target = { ...view, scale: this.limited(view.scale) };
    this.fitted = whole;
    cancelAnimationFrame(this.gliding);
    if (!smoothly || still() || !this.view) return this.settle(target);
    const [from, began, long] = [this.view, performance.now(), 450];
    const step = (now) => {
      const t = Math.min(1, (now - began) / long);
      const s = 1 - (1 - t) ** 3;
      const blend = (key) => from[key] + s * (target[key] - from[key]);
      this.settle({ x: blend("x"), y: blend("y"), scale: from.scale * (target.scale / from.scale) ** s });
      if (t < 1) this.gliding = requestAnimationFrame(step);
    };
    this.gliding = requestAnimationFrame(step);
    return undefined;
  }

  settle(view) {
    this.view = view;
    this.canvas.classList.toggle("zoomed", view.scale < 0.99 * this.whole().scale);
    this.draw();
    this.moved(this.fitted ? null : [view.x.toFixed(1), view.y.toFixed(1), view.scale.toPrecision(3)]);
  }

  // factor < 1: closer; the place under (px, py) stays where it is
  zoom(factor, px = this.size.wide / 2, py = this.size.tall / 2) {
    if (!this.view) return;
    const [x, y] = this.place(px, py);
    const scale = this.limited(this.view.scale * factor);
    const left = scale / this.view.scale;
    this.go({ x: x + left * (this.view.x - x), y: y + left * (this.view.y - y), scale }, false);
  }

  pan(dx, dy) {
    if (this.view) this.go({ ...this.view, x: this.view.x - dx * this.view.scale, y: this.view.y + dy * this.view.scale }, false);
  }

  pixel(x, y) {
    const { wide, tall } = this.size;
    return [wide / 2 + (x - this.view.x) / this.view.scale, tall / 2 - (y - this.view.y) / this.view.scale];
  }

  place(px, py) {
    const { wide, tall } = this.size;
    return [this.view.x + (px - wide / 2) * this.view.scale, this.view.y - (py - tall / 2) * this.view.scale];
  }

  // the id of the camera nearest to a pixel; those of matches first
  nearest(px, py, reach) {
    if (!this.view) return null;
    let best = [reach, null];
    const consider = (id, x, y, bonus) => {
      const [a, b] = this.pixel(x, y);
      const far = Math.hypot(a - px, b - py) - bonus;
      if (far < best[0]) best = [far, id];
    };
    const { easting, northing, id } = this.cameras;
    easting.forEach((x, i) => consider(id[i], x, northing[i], 0));
    for (const match of this.chosen()?.matches ?? []) consider(match.row, match.position.easting, match.position.northing, 8);
    return best[1];
  }

  chosen() { return this.scene.answers[this.scene.chosen]; }

  // ---- drawing ----

  draw() {
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const { wide, tall } = this.size;
    if (!this.view || !wide) return;
    const sharp = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(wide * sharp) || this.canvas.height !== Math.round(tall * sharp)) {
      Object.assign(this.canvas, { width: Math.round(wide * sharp), height: Math.round(tall * sharp) });
    }
    const style = getComputedStyle(this.canvas);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.font = style.fontFamily;
    this.pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.pen.clearRect(0, 0, wide, tall);
    const step = this.paintGrid(wide, tall);
    this.paintCameras(wide, tall);
    if (this.scene.answers.length > 1) this.paintTrack();
    const answer = this.chosen();
    if (answer?.position) {
      this.paintEstimate(answer);
      if (this.scene.camera) this.paintFrustum(this.scene.camera, answer.radius);
      this.paintMatches(answer);
      this.paintMarker(answer);
    }
    this.paintLit();
    this.paintFrame(wide, tall, step);
  }

  paintGrid(wide, tall) {
    const most = Math.min(130, wide / 3) * this.view.scale;
    const base = 10 ** Math.floor(Math.log10(most));
    const step = Math.max(...[1, 2, 5].map((f) => f * base).filter((one) => one <= most));
    const [west, north] = this.place(0, 0);
    const [east, south] = this.place(wide, tall);
    this.pen.beginPath();
    for (let x = Math.ceil(west / step) * step; x < east; x += step) { const [px] = this.pixel(x, 0); this.pen.moveTo(px, 0); this.pen.lineTo(px, tall); }
    for (let y = Math.ceil(south / step) * step; y < north; y += step) { const [, py] = this.pixel(0, y); this.pen.moveTo(0, py); this.pen.lineTo(wide, py); }
    this.stroke("grid", 1);
    return step;
  }

  stroke(name, width, alpha = 1, dash = []) {
    Object.assign(this.pen, { strokeStyle: this.colour(name), lineWidth: width, globalAlpha: alpha });
    this.pen.setLineDash(dash);
    this.pen.stroke();
    this.pen.setLineDash([]);
    this.pen.globalAlpha = 1;
  }

  fill(name, alpha = 1) {
    Object.assign(this.pen, { fillStyle: this.colour(name), globalAlpha: alpha });
    this.pen.fill();
    this.pen.globalAlpha = 1;
  }

  circle(x, y, radius) {
    this.pen.moveTo(x + radius, y);
    this.pen.arc(x, y, radius, 0, 2 * Math.PI);
  }

  sector(x, y, heading, radius, opening = OPENING) {
    this.pen.moveTo(x, y);
    this.pen.arc(x, y, radius, turn(heading - opening / 2), turn(heading + opening / 2));
    this.pen.closePath();
  }

  paintCameras(wide, tall) {
    const { easting, northing, heading } = this.cameras;
    const long = SIGN / this.view.scale;
    const seen = easting.map((x, i) => [...this.pixel(x, northing[i]), heading[i]])
      .filter(([x, y]) => x > -30 && y > -30 && x < wide + 30 && y < tall + 30);
    if (long >= SIGN_LEAST) {
      this.pen.beginPath();
      for (const [x, y, to] of seen) if (to !== null) this.sector(x, y, to, Math.min(long, SIGN_MOST));
      this.fill("map", 0.16);
      this.stroke("map", 1, 0.4);
    }
    this.pen.beginPath();
    const dot = Math.min(3, Math.max(1.6, long / 4));
    for (const [x, y] of seen) this.circle(x, y, dot);
    this.fill("map", 0.7);
  }

  paintTrack() {
    const points = this.scene.answers.map((answer, i) => ({ i, at: answer.found && answer.position && this.pixel(answer.position.easting, answer.position.northing) }))
      .filter((one) => one.at);
    points.slice(1).forEach((to, i) => { // dashed where photos between were not found
      const from = points[i];
      this.pen.beginPath();
      this.pen.moveTo(...from.at);
      this.pen.lineTo(...to.at);
      this.stroke("query", 2.5, 0.8, to.i === from.i + 1 ? [] : [3, 5]);
    });
    for (const { i, at } of [...points].reverse()) if (i !== this.scene.chosen) this.badge(...at, String(i + 1), "query", 8);
  }

  paintEstimate(answer) {
    const [x, y] = this.pixel(answer.position.easting, answer.position.northing);
    const radius = answer.radius / this.view.scale;
    const colour = answer.found ? "query" : "muted";
    this.pen.beginPath();
    this.circle(x, y, radius);
    if (answer.found) this.fill(colour, 0.1);
    this.stroke(colour, 1.5, answer.found ? 0.9 : 0.7, answer.found ? [] : [4, 5]);
    if (!answer.found || answer.heading === null || this.scene.camera?.sure) return;
    this.pen.beginPath();
    this.sector(x, y, answer.heading, Math.max(26, Math.min(radius, 70)));
    this.fill(colour, 0.3);
    this.stroke(colour, 1.5);
  }

  // the camera as its pose has it: a triangle, where those of the map are sectors; dashed if it is not to be relied on
  paintFrustum({ easting, northing, heading, fov, sure }, radius) {
    const [x, y] = this.pixel(easting, northing);
    const half = Math.min(fov / 2, 80);
    const side = Math.max(44, Math.min(radius / this.view.scale, 110)) / Math.cos((half * Math.PI) / 180);
    this.pen.beginPath();
    this.pen.moveTo(x, y);
    for (const edge of [-half, half]) { const to = turn(heading + edge); this.pen.lineTo(x + side * Math.cos(to), y + side * Math.sin(to)); }
    this.pen.closePath();
    if (sure) this.fill("query", 0.28);
    this.stroke("panel", 6, 0.9);
    this.stroke("query", 2.5, 1, sure ? [] : [5, 5]);
  }

  // on top of matches that stand where it does
  paintMarker(answer) {
    const { easting, northing } = this.scene.camera?.sure ? this.scene.camera : answer.position;
    const [x, y] = this.pixel(easting, northing);
    const { answers, chosen } = this.scene;
    if (!answer.found) this.words(x, y - Math.max(answer.radius / this.view.scale, 24) - 9, "best guess only", "muted");
    else if (answers.length > 1) this.badge(x, y, String(chosen + 1), "query", 11);
    else this.badge(x, y, "", "query", 5);
  }

  paintMatches(answer) {
    [...answer.matches].reverse().forEach((match, back) => {
      const [x, y] = this.pixel(match.position.easting, match.position.northing);
      const alpha = answer.found ? 1 : 0.55;
      if (match.heading !== null) {
        this.pen.beginPath();
        this.sector(x, y, match.heading, 24);
        this.fill("map", 0.3 * alpha);
        this.stroke("map", 1.2, alpha);
      }
      this.badge(x, y, String(answer.matches.length - back), "map", 9, alpha, true);
    });
  }

  // a round sign with a number, or a square one for photos of the map
  badge(x, y, words, colour, size, alpha = 1, square = false) {
    this.pen.beginPath();
    if (square) this.pen.roundRect(x - size, y - size, 2 * size, 2 * size, 3); else this.circle(x, y, size);
    this.fill(colour, alpha);
    this.stroke("paper", 1.5);
    if (!words) return;
    Object.assign(this.pen, { font: `650 ${size + 3}px ${this.font}`, textAlign: "center", textBaseline: "middle", fillStyle: this.colour("paper") });
    this.pen.fillText(words, x, y + 0.5);
  }

  words(x, y, words, colour, align = "center") {
    Object.assign(this.pen, { font: `600 13px ${this.font}`, textAlign: align, textBaseline: "middle", lineWidth: 4, lineJoin: "round" });
    Object.assign(this.pen, { strokeStyle: this.colour("panel"), fillStyle: this.colour(colour) });
    this.pen.strokeText(words, x, y);
    this.pen.fillText(words, x, y);
  }

  paintLit() {
    const match = this.chosen()?.matches?.find((one) => one.row === this.lit);
    if (!match) return;
    const [x, y] = this.pixel(match.position.easting, match.position.northing);
    this.pen.beginPath();
    this.circle(x, y, 17);
    this.stroke("ink", 2.5);
  }

  paintFrame(wide, tall, step) {
    const long = step / this.view.scale;
    const [x, y] = [14, tall - 14];
    this.pen.beginPath();
    this.pen.moveTo(x, y - 5); this.pen.lineTo(x, y); this.pen.lineTo(x + long, y); this.pen.lineTo(x + long, y - 5);
    this.stroke("panel", 5, 0.8);
    this.stroke("ink", 2);
    this.words(x + long / 2, y - 13, step >= 1000 ? `${step / 1000} km` : `${step} m`, "ink");
    this.pen.beginPath(); // an arrow to the north
    this.pen.moveTo(22, 12); this.pen.lineTo(28, 28); this.pen.lineTo(22, 24); this.pen.lineTo(16, 28); this.pen.closePath();
    this.fill("ink");
    this.words(22, 38, "N", "ink");
    if (!this.canvas.matches(":focus-visible")) return;
    this.pen.beginPath();
    for (const [dx, dy] of [[10, 0], [0, 10]]) { this.pen.moveTo(wide / 2 - dx, tall / 2 - dy); this.pen.lineTo(wide / 2 + dx, tall / 2 + dy); }
    this.stroke("ink", 2);
  }

  // ---- pointers and keys ----

  listen() {
    const { canvas, held } = this;
    const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const middle = () => { const all = [...held.values()]; return [0, 1].map((i) => all.reduce((sum, one) => sum + one[i], 0) / all.length); };
    const spread = () => { const [a, b] = [...held.values()]; return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0; };
    let travelled = 0, fingers = 0;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      if (!held.size) travelled = fingers = 0;
      held.set(event.pointerId, spot(event));
      fingers = Math.max(fingers, held.size);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!held.has(event.pointerId)) {
        canvas.classList.toggle("on-camera", this.nearest(...spot(event), 12) !== null);
        return;
      }
      const [before, apart] = [middle(), spread()];
      held.set(event.pointerId, spot(event));
      const now = middle();
      travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (travelled > 5 || fingers > 1) this.pan(now[0] - before[0], now[1] - before[1]);
      if (apart && spread()) this.zoom(apart / spread(), ...now);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held.delete(event.pointerId) && !held.size && travelled <= 5 && fingers === 1) {
        const id = this.nearest(...spot(event), event.pointerType === "touch" ? 24 : 14);
        if (id !== null) this.pick(id);
      }
    });
    canvas.addEventListener("pointercancel", (event) => held.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      if (!this.view || (event.deltaY > 0 && this.view.scale >= this.limited(Infinity))) return; // then the page may scroll
      event.preventDefault();
      this.zoom(2 ** (Math.max(-150, Math.min(150, event.deltaY)) / 300), ...spot(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const keys = {
        ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0), ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
        "+": () => this.zoom(1 / 1.5), "=": () => this.zoom(1 / 1.5), "-": () => this.zoom(1.5), 0: () => this.fit(),
        Enter: () => { const id = this.nearest(this.size.wide / 2, this.size.tall / 2, Infinity); if (id !== null) this.pick(id); },
      };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, () => this.draw());
    for (const wish of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"]) matchMedia(wish).addEventListener("change", () => this.draw());
    new ResizeObserver(() => { if (this.fitted) this.fit(); else this.draw(); }).observe(canvas);
  }
}
