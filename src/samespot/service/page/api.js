// The service: questions to it, the key if it wants one, and its troubles in words that help.
import { at } from "./dom.js";

const KEY = "samespot-key";
const PATIENCE = 60_000; // [ms]
let key = remembered();
let asking = null; // the key dialog that is open, so that several requests ask once

function remembered() {
  try { return sessionStorage.getItem(KEY); } catch { return null; }
}

export class Trouble extends Error {
  constructor(title, words, { again = false, wait = 0 } = {}) {
    super(title);
    Object.assign(this, { title, words, again, wait });
  }
}

function inWords(status, { code = "", message = "" } = {}, wait = 0) {
  const titles = {
    400: "The service did not understand the question", 404: "The service does not have that", 408: "The service took too long",
    413: "The photo is too large", 415: "This kind of file cannot be read", 422: "The photo cannot be read",
    429: "The service is busy", 503: "The service is not ready yet",
  };
  const helps = {
    413: "Choose a smaller one.", 415: "JPEG, PNG and WebP always work.", 422: "The file may be damaged. Try another photo.",
    429: wait ? `Try again in ${wait} ${wait === 1 ? "second" : "seconds"}.` : "Try again in a moment.",
    503: "It may still be loading its map. Try again in a moment.",
  };
  const title = titles[code === "too_slow" ? 408 : status] ?? "Something went wrong in the service";
  const help = !message || status === 415 || status === 422 ? helps[status] : ""; // elsewhere the service says what helps
  return new Trouble(title, [message, help].filter(Boolean).join(" "), { again: status >= 429 || status === 408, wait });
}

// asks for the key; resolves when one was given
function askForKey(wrong) {
  const dialog = at("key");
  at("key-trouble").textContent = wrong ? "The service does not accept this key." : "";
  asking ??= new Promise((done) => {
    const form = dialog.querySelector("form");
    form.reset();
    form.onsubmit = (event) => {
      event.preventDefault();
      key = at("key-input").value.trim();
      try { sessionStorage.setItem(KEY, key); } catch { /* then it is asked for again */ }
      asking = null;
      dialog.close();
      done();
    };
    dialog.onclose = () => { if (asking) dialog.showModal(); }; // without a key there is nothing to see
    dialog.showModal();
  });
  return asking;
}

async function request(path, options) {
  const used = key;
  const limits = [options.signal, AbortSignal.timeout(PATIENCE)].filter(Boolean);
  const headers = { ...options.headers, ...(used ? { Authorization: `Bearer ${used}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers, signal: AbortSignal.any?.(limits) ?? options.signal, credentials: "omit" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    if (error.name === "TimeoutError") throw inWords(408);
    throw new Trouble("The service cannot be reached", "Check your connection, and that the service is still running.", { again: true });
  }
  if (response.status !== 401) return response;
  if (used === key) await askForKey(Boolean(used)); // else another request has asked meanwhile
  return request(path, options);
}

export async function ask(path, options = {}) {
  const response = await request(path, options);
  let said = null;
  try { said = await response.json(); } catch { /* what is no json has nothing to say */ }
  if (response.ok && said) return said;
  const wait = Math.ceil(Number(response.headers.get("Retry-After"))) || 0;
  throw inWords(response.ok ? 500 : response.status, said?.error, wait);
}

// where an image element finds a photo of the map; with a key, which an image element cannot send, it is fetched first
export async function photoAddress(map, id, size) {
  const path = `v1/places/${id}/photo?${new URLSearchParams({ size, map })}`;
  if (!key) return path;
  const response = await request(path, {});
  if (!response.ok) throw new Trouble("No photo", "");
  return URL.createObjectURL(await response.blob());
}

// the large photo if there is one, else the small one
export async function showPhoto(image, map, id, sizes) {
  for (const size of sizes) {
    try {
      image.src = await photoAddress(map, id, size);
      await image.decode();
      return true;
    } catch { /* the next size */ } finally { URL.revokeObjectURL(image.src); }
  }
  image.removeAttribute("src");
  image.classList.add("missing");
  return false;
}
