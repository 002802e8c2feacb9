"use strict";
// Plotly figures in the colours of the page: all drawn before the page counts as loaded, so that whoever prints or
// captures it finds them; again when the theme changes.
const plots = (() => {
  const drawn = new Map();

  function cssColour(token) {
    const found = /^@([\w-]+)(?:\/([\d.]+))?$/.exec(token);
    if (!found) return token;
    const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${found[1]}`).trim();
    if (found[2] === undefined) return hex;
    const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${parts.join(",")},${found[2]})`;
  }

  function themed(value) {
    if (typeof value === "string") return value.startsWith("@") ? cssColour(value) : value;
    if (Array.isArray(value)) return value.some((one) => typeof one === "string" || (one && typeof one === "object")) ? value.map(themed) : value;
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, themed(inner)]));
    }
    return value;
  }

  function axis(own) {
    const look = {
      gridcolor: "@grid", linecolor: "@rule", tickcolor: "@rule", zeroline: false, showline: true,
      ticks: "outside", ticklen: 4, fixedrange: true, automargin: true,
    };
    const merged = { ...look, ...own };
    if (own.title) merged.title = { standoff: 8, font: { size: 12, color: "@muted" }, ...own.title };
    return merged;
  }

  function layout(own) {
    const body = getComputedStyle(document.body).fontFamily;
    return themed({
      hovermode: "x", ...own,
      xaxis: axis(own.xaxis || {}), yaxis: axis(own.yaxis || {}),
      showlegend: false, dragmode: false, autosize: true, bargap: 0.08,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: body, size: 12, color: "@muted" },
      hoverlabel: { bgcolor: "@panel", bordercolor: "@rule", font: { color: "@ink", family: body, size: 12 }, namelength: -1 },
    });
  }

  function draw(box) {
    const spec = drawn.get(box) || JSON.parse(box.parentElement.querySelector(".plot-spec").textContent);
    drawn.set(box, spec);
    Plotly.react(box, themed(spec.data), layout(spec.layout), { displayModeBar: false, displaylogo: false, responsive: true });
  }

  const closed = () => document.querySelectorAll("details:not(.menu):not([open]):not(:has(pre))");
  const drawings = () => document.querySelectorAll(".plot .main-svg");

  function begin() {
    document.querySelectorAll(".plot").forEach(draw);
    // paper is narrower than the screen, and nothing is drawn again for it: what is there shrinks
    // and what can be opened is open on paper, but for files
    window.addEventListener("beforeprint", () => closed().forEach((one) => { one.open = true; one.dataset.closed = ""; }));
    window.addEventListener("afterprint", () => document.querySelectorAll("details[data-closed]").forEach((one) => { one.open = false; delete one.dataset.closed; }));
    window.addEventListener("beforeprint", () => drawings().forEach((svg) => svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`)));
    window.addEventListener("afterprint", () => drawings().forEach((svg) => svg.removeAttribute("viewBox")));
  }

  return { begin, redraw: () => [...drawn.keys()].forEach(draw) };
})();
