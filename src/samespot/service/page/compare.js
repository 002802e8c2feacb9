// Two photos side by side, and lines between the points that agree.
import { ask, showPhoto } from "./api.js";
import { picture } from "./answer.js";
import { at, make } from "./dom.js";
import { coordinates, facing, matchFacts, named, percent } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const dialog = at("compare");
const pairBox = dialog.querySelector(".pair");
let shown = null; // { id, match, pairs, lines }

function node(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawLines() {
  const lines = pairBox.querySelector("svg");
  if (!lines || !shown) return;
  const [left, right] = [...pairBox.querySelectorAll("img")].map((image) => image.getBoundingClientRect());
  const box = pairBox.getBoundingClientRect();
  lines.replaceChildren();
  if (!at("show-lines").checked || !left || !right || !left.width || !right.width) return;
  lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  for (const [x1, y1, x2, y2] of shown.pairs) {
    const from = [left.left - box.left + x1 * left.width, left.top - box.top + y1 * left.height];
    const to = [right.left - box.left + x2 * right.width, right.top - box.top + y2 * right.height];
    lines.append(node("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }));
    for (const [cx, cy] of [from, to]) lines.append(node("circle", { cx, cy, r: 2.5 }));
  }
}

async function placeFacts(map, id, list) {
  try {
    const place = await ask(`v1/places/${id}?${new URLSearchParams({ map })}`);
    const rows = [
      ["Position", place.position && coordinates(place.position)], ["Facing", place.heading !== null && place.heading !== undefined && facing(place.heading)],
      ["Taken", place.time && String(place.time).replace("T", " ")], ["Condition", place.condition],
    ];
    list.append(...rows.filter((row) => row[1]).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
    return place.image;
  } catch (error) {
    list.append(make("div", {}, make("dt", {}, error.title ?? "Trouble"), make("dd", {}, error.words ?? "")));
    return null;
  }
}

// id: of the map's photo; answer and asked: of the photo in question, if there is one
export async function compare(id, { map, answer, asked }) {
  const match = answer?.matches?.find((one) => one.row === id) ?? null;
  const order = match ? answer.matches.indexOf(match) : -1;
  const many = answer?.matches?.length ?? 0;
  shown = { id, order, pairs: (asked?.url && match?.pairs) || [], rows: answer?.matches?.map((one) => one.row) ?? [] };
  const image = make("img", { alt: match ? `Photo of the map, ${match.image}` : "Photo of the map" });
  const mine = asked ? [picture(asked, "your photo")] : [];
  const lines = node("svg", { "aria-hidden": "true", class: "lines" });
  pairBox.classList.toggle("single", !asked);
  pairBox.replaceChildren(...mine, make("div", { class: "framed map" }, make("span", { class: "tag" }, match ? `match ${order + 1}` : "photo of the map"), image), lines);
  const title = match ? [`Match ${order + 1} of ${many} `, make("span", { class: "name" }, named(match.image))] : ["A photo of the map"];
  at("compare-title").replaceChildren(...title);
  const facts = match ? matchFacts(answer, match) : null;
  const told = facts?.facts ?? (asked ? ["This photo is not among the best matches, so its points were not compared"] : []);
  if (facts?.same && match.overlap) told[0] += ` (${Math.round(100 * match.overlap.low)} to ${percent(match.overlap.high)} in four cases of five)`;
  if (match && !answer.found) told.push("That many can agree by chance");
  const list = make("dl", { class: "where" });
  dialog.querySelector(".told").replaceChildren(make("p", {}, told.map((fact) => `${fact}. `).join("")), list);
  at("show-lines").parentElement.hidden = !shown.pairs.length;
  for (const button of dialog.querySelectorAll("[data-step]")) {
    button.hidden = !match || many < 2;
    button.disabled = shown.rows[order + Number(button.dataset.step)] === undefined;
  }
  if (!dialog.open) dialog.showModal();
  else if (document.activeElement?.disabled) dialog.querySelector("[data-close]").focus();
  dialog.scrollTop = 0;
  const now = shown;
  placeFacts(map, id, list).then((name) => {
    if (!name || shown !== now || match) return;
    image.alt = `Photo of the map, ${name}`;
    at("compare-title").append(" ", make("span", { class: "name" }, named(name)));
  });
  await showPhoto(image, map, id, ["large", "thumbnail"]);
  if (shown === now) drawLines();
}

export function closeCompare() {
  if (dialog.open) dialog.close();
}

// closed: however that came about; step: to another match
export function beginCompare({ closed, step }) {
  dialog.addEventListener("close", closed);
  dialog.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (event.target === dialog || button?.hasAttribute("data-close")) dialog.close();
    else if (button?.dataset.step) step(shown.rows[shown.order + Number(button.dataset.step)]);
  });
  dialog.addEventListener("keydown", (event) => {
    const next = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const row = next && shown.order >= 0 ? shown.rows[shown.order + next] : undefined;
    if (row !== undefined) step(row);
  });
  at("show-lines").addEventListener("change", drawLines);
  pairBox.addEventListener("load", ({ target }) => { // the frame takes the photo's shape, so that both fit the window
    target.parentElement.style.setProperty("--shape", target.naturalWidth / target.naturalHeight);
    drawLines();
  }, true);
  new ResizeObserver(drawLines).observe(pairBox);
}
