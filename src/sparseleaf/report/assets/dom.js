// Small helpers for elements and numbers. Text always becomes text nodes, never HTML.

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const wholeNumber = new Intl.NumberFormat("en");

const formats = {
  text: (value) => value,
  count: (value) => wholeNumber.format(value),
  percent: (value) => (value === null || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)}%`),
  number: (value) => (value === null || Number.isNaN(value) ? "–" : String(Number(value.toPrecision(4)))),
};

function signed(value) {
  return (value >= 0 ? "+" : "−") + String(Number(Math.abs(value).toPrecision(3)));
}

// Names with bars: positive to the one side in one colour, negative in another.
function barList(entries, format) {
  const largest = Math.max(...entries.map(([, value]) => Math.abs(value)), 1e-12);
  const rows = entries.map(([name, value, note]) => {
    const bar = element("span", { class: value >= 0 ? "bar for" : "bar against", "aria-hidden": "true" });
    bar.style.width = `${(100 * Math.abs(value)) / largest}%`;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, name, note ? element("span", { class: "soft" }, ` ${note}`) : null),
      element("td", {}, format(value)),
      element("td", { class: "wide" }, bar),
    );
  });
  return element("table", { class: "bars" }, element("tbody", {}, ...rows));
}
