// The page: photos come in, the service is asked, the answer is shown.
import { answerCard, matchTiles, picture, trackStrip, wayLength } from "./answer.js";
import { ask, Trouble } from "./api.js";
import { beginCompare, closeCompare, compare } from "./compare.js";
import { address, at, make, readdress, say } from "./dom.js";
import { MapView } from "./map_view.js";
import { prepared } from "./photo.js";
import { coordinates, facing, headline, matchFacts, metres, poseOnMap, poseWords } from "./words.js";

const EVERY = 10; // [s] between two photos of a walk: enough for those that somebody picked
const SLOW = 3000; // [ms] after which a reader wonders
const state = { map: null, info: null, asked: [], answers: [], chosen: 0, walk: true, notes: [] };
let ready = null; // the map that is being opened
let broken = false; // whether that failed
let left = null; // what waits until the address is that of before a place was opened
let running = null; // what stops the question that is under way
let telling = 0;

const map = new MapView(at("map"), {
  pick: (id) => openPlace(id, true),
  moved: (view) => { clearTimeout(telling); telling = setTimeout(() => readdress({ view: view && view.join(",") }), 300); },
});

// ---- the map ----

const photosOf = (one) => `${one.photos.toLocaleString("en")} photos`;

async function begin() {
  try {
    const { maps } = await ask("v1/maps");
    const names = maps.map((one) => one.name);
    at("map-choice").hidden = names.length < 2;
    at("map-select").replaceChildren(...maps.map((one) => make("option", { value: one.name }, `${one.name}, ${photosOf(one)}`)));
    const wished = address().map;
    await open(names.includes(wished) ? wished : names[0]);
    const { place, view } = address();
    if (view) map.go({ x: view[0], y: view[1], scale: view[2] }, false);
    if (place !== null) openPlace(place, false);
  } catch (error) {
    at("map-facts").textContent = "";
    at("answer").replaceChildren(trouble(error, () => { at("answer").replaceChildren(); start(); }));
    throw error;
  }
}

function start() {
  broken = false;
  ready = begin();
  ready.catch(() => { broken = true; }); // it is told where the answer would be
}

async function open(name) {
  state.map = name;
  at("map-select").value = name;
  at("map-facts").textContent = "Opening the map…";
  const query = new URLSearchParams({ map: name });
  const [info, cameras] = await Promise.all([ask(`v1/map?${query}`), ask(`v1/cameras?${query}`)]);
  if (state.map !== name) return;
  state.info = info;
  at("map-facts").textContent = `${photosOf(info)} in this map`;
  map.setCameras(cameras);
  describeMap();
}

function describeMap() {
  const { info, answers, chosen } = state;
  const answer = answers[chosen];
  const { west, east, south, north } = info.bounds;
  const words = [`${metres(east - west)} from west to east, ${metres(north - south)} from south to north.`];
  const key = [["dot", map.cameras.shown < info.photos ? "photos of the map, a part of them" : "photos of the map"]];
  if (answer?.position) {
    key.unshift(["square", answer.found ? "best matches" : "most alike"]);
    if (answer.found) {
      key.unshift(["round", answers.length > 1 ? "your photos, in their order" : "your photo"]);
      const near = answer.matches.filter((match) => matchFacts(answer, match).same).length;
      words.push(`Your photo is at ${coordinates(answer.position)}; ${near} of ${answer.matches.length} matches are there.`);
      const camera = poseOnMap(answer, info);
      if (camera) key.unshift(["wedge", camera.sure ? "your camera and what it sees" : "your camera, if its pose were right"]);
      if (camera?.sure) words.push(`Your camera looks ${facing(camera.heading)} and sees ${Math.round(camera.fov)}°.`);
    } else words.push("Your photo is not on the map.");
  }
  at("map-key").replaceChildren(...key.map(([sign, name]) => make("li", {}, make("i", { class: `sign ${sign}` }), name)));
  at("map-words").textContent = words.join(" ");
}

// ---- asking ----

const isPhoto = (file) => file.type.startsWith("image/") || /\.(heic|heif|avif|jpe?g|png|webp|tiff?|bmp)$/i.test(file.name);
const inOrder = new Intl.Collator("en", { numeric: true });

async function take(given) {
  const photos = given.filter(isPhoto).sort((a, b) => inOrder.compare(a.name, b.name));
  const files = photos.length ? photos : given.slice(0, 1);
  if (!files.length) return;
  running?.abort();
  const mine = running = new AbortController();
  for (const one of state.asked) if (one.url) URL.revokeObjectURL(one.url);
  Object.assign(state, { asked: [], answers: [], chosen: 0, walk: true, notes: [] });
  closeCompare();
  readdress({ photo: null, place: null });
  busy("Opening the photo…");
  try {
    if (broken) start();
    await ready;
    const most = state.info.limits?.images ?? files.length;
    if (files.length < given.length) state.notes.push("Files that are not photos were left out.");
    if (files.length > most) state.notes.push(`Only the first ${most} of ${files.length} photos were asked about: this service takes no more at once.`);
    const asked = [];
    for (const file of files.slice(0, most)) {
      asked.push(await prepared(file, state.info.limits));
      if (mine !== running) return;
    }
    state.asked = asked;
    await send();
  } catch (error) {
    if (mine === running) failed(error, () => take(given));
  }
}

const KINDS = { heic: "image/heic", heif: "image/heif", avif: "image/avif", tif: "image/tiff", tiff: "image/tiff" };
const kindOf = ({ blob, name }) => blob.type || KINDS[name.split(".").at(-1).toLowerCase()] || "image/jpeg";

async function send() {
  running?.abort();
  const mine = running = new AbortController();
  const { asked } = state;
  busy(asked.length > 1 ? `Looking for ${asked.length} photos…` : "Looking…");
  const query = { map: state.map, k: 5, pairs: true };
  if (state.info.poses && asked.length === 1) { // of many, poses would take longer than a service waits
    query.pose = true;
    if (asked[0].camera) query.camera = asked[0].camera;
  }
  let body, headers = {};
  if (asked.length === 1) {
    [body, headers] = [asked[0].blob, { "Content-Type": kindOf(asked[0]) }];
  } else {
    body = new FormData();
    for (const one of asked) body.append("photo", new Blob([one.blob], { type: kindOf(one) }), one.name);
    if (state.walk) Object.assign(query, { track: true, every: EVERY });
  }
  try {
    const told = await ask(`v1/locate?${new URLSearchParams(query)}`, { method: "POST", body, headers, signal: mine.signal });
    if (mine !== running) return;
    state.answers = (asked.length === 1 ? [told] : told.answers).map((one) => ({ matches: [], position: null, probability: 0, ...one }));
    state.chosen = Math.max(0, state.answers.findIndex((one) => one.found));
    show();
    look();
    say(announced());
  } catch (error) {
    if (mine === running) failed(error, send);
  }
}

function busy(words) {
  document.body.classList.add("answered");
  at("choose").textContent = "Another photo";
  at("matches").hidden = true;
  const doing = make("p", { class: "doing" }, words);
  const card = make("div", { class: "card busy", "aria-busy": "true" }, make("div", { class: "bar waiting", "aria-hidden": "true" }, make("i")), doing);
  if (state.asked.length === 1) card.append(picture(state.asked[0], "your photo"));
  at("answer").replaceChildren(card);
  map.setScene({ answers: [], chosen: 0 });
  if (state.info) describeMap();
  say(words);
  setTimeout(() => {
    if (doing.isConnected) doing.textContent = `${words} The first photo takes longer, while the service loads its model.`;
  }, SLOW);
}

function trouble(error, again) {
  const known = error instanceof Trouble ? error : new Trouble("Something went wrong on this page", String(error?.message ?? error));
  const card = make("div", { class: "card trouble-card", role: "alert" }, make("h2", {}, known.title), make("p", {}, known.words));
  if (!known.again && known === error) return card;
  const button = make("button", { type: "button", class: "primary", click: again }, "Try again");
  card.append(button);
  const count = (left) => {
    button.disabled = left > 0;
    button.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    if (left > 0) setTimeout(() => count(left - 1), 1000);
  };
  count(known.wait);
  return card;
}

function failed(error, again) {
  const card = trouble(error, again);
  if (state.asked.length === 1) card.append(picture(state.asked[0], "your photo"));
  at("answer").replaceChildren(card);
}

// ---- showing ----

function announced() {
  const { answers, chosen } = state;
  if (answers.length > 1) return `${answers.filter((one) => one.found).length} of ${answers.length} photos found.`;
  const answer = answers[chosen];
  const told = answer.found ? `Position ${coordinates(answer.position)}. ${answer.matches.length} matches.` : "The photo was not found.";
  return [`${headline(answer)}.`, told, poseWords(answer)].filter(Boolean).join(" ");
}

function show() {
  const { answers, asked, chosen, info } = state;
  const answer = answers[chosen];
  const parts = [answerCard(answer, asked[chosen], info)];
  if (answers.length > 1) parts.unshift(trackHead(), trackStrip(answers, asked, chosen, (i) => choose(i, true)));
  const notes = state.notes.map((note) => make("p", { class: "fine" }, note));
  at("answer").replaceChildren(...notes, ...parts);
  const tiles = matchTiles(answer, { map: state.map, open: (id) => openPlace(id, true), light: (id) => map.light(id) });
  at("matches").hidden = !tiles.length;
  at("matches-title").textContent = answer.found ? "Best matches" : "The most alike, though probably other places";
  at("matches").querySelector("ol").replaceChildren(...tiles);
  map.setScene({ answers, chosen, camera: poseOnMap(answer, info) });
  describeMap();
  document.title = `${headline(answer)} · samespot`;
}

function trackHead() {
  const { answers } = state;
  const found = answers.filter((one) => one.found).length;
  const way = wayLength(answers);
  const box = make("input", { type: "checkbox", id: "walk", change: () => { state.walk = box.checked; send(); } });
  box.checked = state.walk;
  return make("div", { class: "track-head" },
    make("h2", {}, `${found} of ${answers.length} photos found`),
    make("p", { class: "fine" }, `In the order of their names.${found > 1 ? ` About ${metres(way)} from the first to the last that was found.` : ""}`),
    make("label", { class: "check" }, box, " One walk: photos before and after help"));
}

function choose(i, push) {
  if (!state.answers[i] || i === state.chosen) return;
  state.chosen = i;
  if (push) readdress({ photo: i + 1 }, true);
  show();
  if (push) document.querySelector(".step[aria-current]")?.focus(); // it was drawn anew
  const to = state.answers[i].position;
  if (to && state.answers[i].found) {
    const [x, y] = map.pixel(to.easting, to.northing);
    if (x < 20 || y < 20 || x > map.size.wide - 20 || y > map.size.tall - 20) look();
  }
  if (push) say(headline(state.answers[i]));
}

// the map goes to what was found; to all of it where nothing was
function look() {
  const box = ({ position: { easting, northing }, radius }) => [-2, 2].map((side) => [easting + side * radius, northing + side * radius]);
  const found = state.answers.filter((one) => one.found && one.position);
  if (found.length) map.show(found.flatMap(box)); else map.fit();
}

async function openPlace(id, push) {
  await left;
  if (push) readdress({ place: id }, true);
  compare(id, { map: state.map, answer: state.answers[state.chosen], asked: state.asked[state.chosen] });
}

// ---- what readers do ----

function listen() {
  at("take").hidden = !navigator.maxTouchPoints; // elsewhere it would open the same window of files
  at("choose").addEventListener("click", () => at("files").click());
  at("take").addEventListener("click", () => at("camera").click());
  for (const id of ["files", "camera"]) {
    at(id).addEventListener("change", (event) => { take([...event.target.files]); event.target.value = ""; });
  }
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length && !document.querySelector("dialog[open]")) { event.preventDefault(); take(files); }
  });
  let inside = 0;
  const carries = (event) => event.dataTransfer?.types.includes("Files");
  const mark = (change) => { inside = Math.max(0, change); document.body.classList.toggle("drag", inside > 0); };
  document.addEventListener("dragenter", (event) => { if (carries(event)) { event.preventDefault(); mark(inside + 1); } });
  document.addEventListener("dragleave", (event) => { if (carries(event)) mark(inside - 1); });
  document.addEventListener("dragover", (event) => { if (carries(event)) event.preventDefault(); });
  document.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    mark(0);
    take([...event.dataTransfer.files]);
  });
  document.querySelector(".zoom").addEventListener("click", (event) => {
    const way = event.target.closest("button")?.dataset.zoom;
    if (way === "all") map.fit(); else if (way) map.zoom(way === "in" ? 1 / 1.6 : 1.6);
  });
  at("map-select").addEventListener("change", (event) => {
    readdress({ map: event.target.value, view: null, photo: null, place: null }, true);
    change(event.target.value);
  });
  beginCompare({
    closed: () => {
      if (address().place === null) return undefined; // it was closed by going back
      if (!history.state?.pushed) return readdress({ place: null });
      left = new Promise((done) => { addEventListener("popstate", done, { once: true }); });
      return history.back();
    },
    step: (id) => { readdress({ place: id }); openPlace(id, false); },
  });
  addEventListener("popstate", async () => {
    const told = address();
    if (state.info && (told.map ?? at("map-select").options[0].value) !== state.map) await change(told.map ?? at("map-select").options[0].value);
    if (state.answers.length > 1 && told.photo) choose(told.photo - 1, false);
    if (told.place === null) closeCompare(); else if (state.info) openPlace(told.place, false);
  });
}

// another map: the same photos are asked about again
async function change(name) {
  Object.assign(state, { answers: [], chosen: 0 });
  ready = open(name);
  try {
    await ready;
    if (state.asked.length) await send();
  } catch (error) {
    at("answer").replaceChildren(trouble(error, () => change(name)));
  }
}

listen();
start();
