// One answer and its matches, as elements.
import { showPhoto } from "./api.js";
import { make, say } from "./dom.js";
import { apart, coordinates, facing, headline, matchFacts, metres, named, percent, poseOnMap, poseWords, reliable, sentence } from "./words.js";

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not allowed, or not served over https
    const area = make("textarea", { class: "unseen" });
    area.value = text;
    button.after(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function coordinateRow(name, text) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, make("span", { class: "number" }, text),
    make("button", { type: "button", class: "small", "aria-label": `Copy: ${text}`, click: (event) => copy(text, event.currentTarget) }, "Copy")));
}

function bar(probability, found) {
  const fill = make("i");
  fill.style.width = `${Math.min(99, Math.max(1, 100 * probability))}%`;
  return make("div", { class: `bar ${found ? "found" : ""}`, "aria-hidden": "true" }, fill);
}

export function picture(asked, tag) {
  const box = make("div", { class: "framed query" }, make("span", { class: "tag" }, tag));
  if (asked?.url) box.append(make("img", { src: asked.url, alt: `Your photo ${asked.name}` }));
  else box.append(make("p", { class: "no-photo" }, asked ? `${asked.name}: this browser cannot show it` : "Your photo is no longer here"));
  return box;
}

function explained(answer, info) {
  const { verified, unverified } = info.calibration?.reliability ?? {};
  const asked = (verified ?? unverified)?.questions;
  const whose = answer.calibration === "map"
    ? `The number comes from ${asked ? `${asked} ` : ""}questions that this map was asked about its own photos.`
    : "This map was too small to be tested itself, so the number comes from tests at other places. Trust it less.";
  const share = answer.outside === 0.5 ? "half" : percent(1 - answer.outside);
  const { probability = null, within } = answer.pose ?? {};
  const ofPose = probability === null ? null : make("p", {},
    `That of the camera pose is the chance that it is right within ${within[0]} m and ${within[1]}°.`);
  return make("details", {}, make("summary", {}, "What does the percentage mean?"), make("p", {},
    `It is the chance that the photo was taken within ${metres(answer.radius)} of the position shown. ${whose} It supposes that ${share} of the photos asked about were taken in this map at all.`), ofPose);
}

export function answerCard(answer, asked, info) {
  const { found, position, probability } = answer;
  if (answer.trouble) return make("div", { class: "card lost" }, make("h2", {}, headline(answer)), picture(asked, "your photo"), make("p", {}, answer.trouble));
  const card = make("div", { class: `card ${found ? "here" : "lost"}` }, make("h2", {}, headline(answer)), answer.no_match ? "" : bar(probability, found), picture(asked, "your photo"));
  if (found) {
    const typical = answer.typical_error ? ` Right answers are typically ${metres(answer.typical_error)} off.` : "";
    const camera = poseOnMap(answer, info);
    const heading = camera?.sure ? camera.heading : answer.heading;
    card.append(make("p", {}, `Within ${metres(answer.radius)} of this position${heading === null ? "" : `, facing ${facing(heading)}`}.${typical}`));
    const list = make("dl", { class: "where" });
    if (position.latitude !== null) list.append(coordinateRow("Latitude, longitude", coordinates(position)));
    list.append(coordinateRow(info.projection ? `Metres, ${info.projection}` : "Metres on the map", coordinates({ ...position, latitude: null })));
    if (answer.pose && reliable(answer.pose)) list.append(coordinateRow("Camera centre: x, y, z of the map's poses", answer.pose.centre.map((one) => one.toFixed(2)).join(", ")));
    card.append(list);
  } else {
    const why = answer.no_match ? sentence(answer.no_match) : probability >= 0.2 ? "It cannot be told well enough where this photo was taken." : "No photo of this map shows the same place, as far as can be told.";
    const guess = position ? ` The best guess, drawn faintly on the map, has a chance of ${percent(probability)}. Do not rely on it.` : "";
    card.append(make("p", {}, why + guess));
  }
  if (poseWords(answer) && !answer.no_match) card.append(make("p", { class: "pose" }, poseWords(answer)));
  card.append(make("p", { class: "fine" }, asked?.note ?? ""), answer.no_match ? "" : explained(answer, info));
  return card;
}

export function matchTiles(answer, { map, open, light }) {
  return answer.matches.map((match, i) => {
    const { same, facts } = matchFacts(answer, match);
    const image = make("img", { alt: "" });
    showPhoto(image, map, match.row, ["thumbnail"]);
    const on = () => light(match.row), off = () => light(null);
    const words = make("span", { class: "words" }, make("strong", {}, named(match.image)), ...facts.map((fact) => make("span", {}, fact)));
    return make("li", {}, make("button", { type: "button", class: same ? "tile same" : "tile", click: () => open(match.row), mouseenter: on, mouseleave: off, focus: on, blur: off },
      make("span", { class: "framed map" }, make("span", { class: "tag" }, make("span", { class: "unseen" }, "Match "), String(i + 1)), image), words));
  });
}

export function trackStrip(answers, asked, chosen, choose) {
  const items = answers.map((answer, i) => {
    const short = answer.trouble ? "unreadable" : answer.found ? percent(answer.probability) : "not here";
    const button = make("button", {
      type: "button", class: answer.found ? "step found" : "step", "aria-current": i === chosen ? "true" : null,
      "aria-label": `Photo ${i + 1}, ${asked[i]?.name ?? answer.photo}: ${headline(answer)}`, click: () => choose(i),
    }, make("span", { class: "framed" }, make("span", { class: "tag" }, String(i + 1)), asked[i]?.url ? make("img", { src: asked[i].url, alt: "" }) : ""), make("span", { class: "short" }, short));
    return make("li", {}, button);
  });
  return make("ol", { class: "strip" }, ...items);
}

// the length of the way over the photos that were found [m]
export function wayLength(answers) {
  const found = answers.filter((answer) => answer.found);
  return found.slice(1).reduce((sum, answer, i) => sum + apart(answer.position, found[i].position), 0);
}
