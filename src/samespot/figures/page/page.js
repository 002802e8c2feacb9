"use strict";
// The page comes alive: photos, small maps, plots, the theme, the contents, the gallery's filter.
(() => {
  const photos = JSON.parse(document.getElementById("photos").textContent);
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  function themeChanged() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to the light theme" : "Switch to the dark theme");
    plots.redraw();
  }

  function remember(theme) {
    try { localStorage.setItem("samespot-theme", theme); } catch { /* a page from a file may not remember */ }
  }

  function remembered() {
    try { return localStorage.getItem("samespot-theme"); } catch { return null; }
  }

  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    themeChanged();
  });
  system.addEventListener("change", themeChanged);
  if (remembered() === "dark" || remembered() === "light") root.dataset.theme = remembered();

  for (const image of document.querySelectorAll("img[data-photo]")) image.src = photos[Number(image.dataset.photo)];
  for (const script of document.querySelectorAll(".sector-spec")) {
    const spec = JSON.parse(script.textContent);
    sectorMap.draw(script.previousElementSibling, spec.cameras, spec.radius);
  }
  themeChanged();
  if (window.Plotly) plots.begin();
  beginExplorer(photos);

  const filter = document.querySelector(".filter");
  if (filter) {
    filter.addEventListener("click", (event) => {
      const chosen = event.target.closest("button");
      if (!chosen) return;
      for (const one of filter.children) one.setAttribute("aria-pressed", String(one === chosen));
      for (const answer of document.querySelectorAll(".answer")) {
        answer.hidden = chosen.dataset.kind !== "" && answer.dataset.kind !== chosen.dataset.kind;
      }
    });
  }

  const links = [...document.querySelectorAll("nav a")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) {
        if (link.hash === `#${entry.target.id}`) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
      }
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
  const menu = document.querySelector(".menu");
  menu.addEventListener("click", (event) => { if (event.target.closest("a")) menu.open = false; });
})();
