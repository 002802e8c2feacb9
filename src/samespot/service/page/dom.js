// Small helpers: elements, and the state of the page in its address.

export const at = (id) => document.getElementById(id);

// attributes by name; a function listens, null and false leave the attribute out
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== null && value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

// said to a screen reader, and seen by nobody; the same words twice are said twice
export function say(words) {
  const status = at("status");
  status.textContent = "";
  setTimeout(() => { status.textContent = words; }, 50);
}

// whether the reader wishes that nothing moves
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// ---- the address: which map, which photo of a track, which place is open, and what the map shows ----

export function address() {
  const told = new URLSearchParams(location.search);
  const number = (name) => (/^\d+$/.test(told.get(name) ?? "") ? Number(told.get(name)) : null);
  const view = (told.get("view") ?? "").split(",").map(Number);
  return {
    map: told.get("map"), photo: number("photo"), place: number("place"),
    view: view.length === 3 && view.every(Number.isFinite) && view[2] > 0 ? view : null,
  };
}

// what is null goes; `push`: the back button leads to what was before
export function readdress(changes, push = false) {
  const told = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) told.delete(key); else told.set(key, value);
  }
  const query = told.toString().replaceAll("%2C", ",");
  const next = location.pathname + (query ? `?${query}` : "");
  if (push) history.pushState({ pushed: true }, "", next);
  else history.replaceState(history.state, "", next);
}
