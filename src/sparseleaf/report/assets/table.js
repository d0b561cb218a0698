// A table of any number of rows, of which only the visible ones are in the document.
//
// Columns have {title, kind, values or get(row), wide, room}: kind is a name in `formats`; columns whose room is "narrow"
// are shown on phones too, "roomy" ones only where there is much room. The keyboard moves the active row (arrows, Page
// Up and Down, Home, End) and opens it (Enter).

const ROW_HEIGHT = 36;
const TALLEST = 8e6; // pixels: browsers limit the height of an element

class BigTable {
  constructor({ columns, nRows, caption, onOpen, sortedBy, descending }) {
    Object.assign(this, { columns, nRows, onOpen });
    this.sorted = Uint32Array.from({ length: nRows }, (_, i) => i);
    this.keep = () => true;
    this.head = element("tr", {}, ...columns.map((column, at) => this.headCell(column, at)));
    this.above = element("tr", { "aria-hidden": "true" }, element("td", { class: "spacer" }));
    this.below = this.above.cloneNode(true);
    this.body = element("tbody", {});
    this.grid = element(
      "table",
      { role: "grid", "aria-label": caption, "aria-rowcount": nRows + 1, tabindex: "0", class: "big" },
      element("thead", {}, this.head),
      this.body,
    );
    this.view = element("div", { class: "view" }, this.grid);
    this.view.addEventListener("scroll", () => this.draw());
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-place]");
      if (row) this.open(Number(row.dataset.place));
    });
    new ResizeObserver(() => this.draw()).observe(this.view);
    this.sort(sortedBy, descending);
  }

  headCell(column, at) {
    const button = element("button", { type: "button", onclick: () => this.sortBy(at) }, column.title);
    return element("th", { scope: "col", "aria-sort": "none", class: cellClass(column) }, button);
  }

  valueOf(column, row) {
    return column.get ? column.get(row) : column.values[row];
  }

  // Clicking a column again reverses its order; numbers start with the largest.
  sortBy(at) {
    const descending = this.sortedBy === at ? !this.descending : this.columns[at].kind !== "text";
    this.sort(at, descending);
  }

  sort(at, descending) {
    this.sortedBy = at;
    this.descending = descending;
    const column = this.columns[at];
    const isText = column.kind === "text";
    const keys = Array.from({ length: this.nRows }, (_, row) => {
      const value = this.valueOf(column, row);
      if (isText) return value.toLowerCase();
      return value === null || Number.isNaN(value) ? -Infinity : value;
    });
    const numeric = isText && keys.every((key) => key !== "" && !Number.isNaN(Number(key)));
    const compared = numeric ? keys.map(Number) : keys;
    const sign = descending ? -1 : 1;
    this.sorted.sort((a, b) => {
      if (compared[a] === compared[b]) return a - b;
      return compared[a] < compared[b] ? -sign : sign;
    });
    [...this.head.children].forEach((cell, place) => {
      cell.setAttribute("aria-sort", place !== at ? "none" : descending ? "descending" : "ascending");
    });
    this.filter(this.keep);
  }

  // Show the rows for which `keep` returns true; returns their number.
  filter(keep) {
    this.keep = keep;
    this.order = this.sorted.filter((row) => keep(row));
    this.grid.setAttribute("aria-rowcount", this.order.length + 1);
    this.view.scrollTop = 0;
    this.active = 0;
    this.draw();
    return this.order.length;
  }

  // By how much the pixels of all rows exceed those that are scrolled.
  get stretch() {
    return Math.max(1, (this.order.length * ROW_HEIGHT) / TALLEST);
  }

  draw() {
    const shown = Math.ceil(this.view.clientHeight / ROW_HEIGHT) + 2;
    const latest = Math.max(0, this.order.length - shown + 2);
    const first = Math.min(latest, Math.floor((this.view.scrollTop * this.stretch) / ROW_HEIGHT));
    const last = Math.min(this.order.length, first + shown);
    const height = (this.order.length * ROW_HEIGHT) / this.stretch;
    const before = Math.min((first * ROW_HEIGHT) / this.stretch, Math.max(0, height - (last - first) * ROW_HEIGHT));
    this.above.firstChild.style.height = `${before}px`;
    this.below.firstChild.style.height = `${Math.max(0, height - before - (last - first) * ROW_HEIGHT)}px`;
    const rows = [];
    for (let place = first; place < last; place++) rows.push(this.rowAt(place));
    this.body.replaceChildren(this.above, ...rows, this.below);
    const active = document.getElementById(`row-${this.active}`);
    if (active) this.grid.setAttribute("aria-activedescendant", active.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  rowAt(place) {
    const row = this.order[place];
    const cells = this.columns.map((column, at) => {
      const text = formats[column.kind](this.valueOf(column, row));
      const attributes = { class: cellClass(column), title: column.kind === "text" ? text : null };
      return element(at ? "td" : "th", at ? attributes : { ...attributes, scope: "row" }, text);
    });
    return element(
      "tr",
      {
        id: `row-${place}`,
        "data-place": place,
        "aria-rowindex": place + 2,
        "aria-selected": this.opened === row ? "true" : "false",
        class: place === this.active ? "active" : "",
      },
      ...cells,
    );
  }

  onKey(event) {
    const page = Math.max(1, Math.floor(this.view.clientHeight / ROW_HEIGHT) - 2);
    const end = this.order.length - 1;
    const steps = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + page,
      PageUp: this.active - page,
      Home: 0,
      End: end,
    };
    if (event.target !== this.grid || end < 0) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(this.active);
    } else if (event.key in steps) {
      event.preventDefault();
      this.active = Math.min(end, Math.max(0, steps[event.key]));
      this.scrollTo(this.active);
      this.draw();
    }
  }

  scrollTo(place) {
    const top = (place * ROW_HEIGHT) / this.stretch;
    const room = this.view.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    else if (top > this.view.scrollTop + room) this.view.scrollTop = top - room;
  }

  open(place) {
    this.active = place;
    this.opened = this.order[place];
    this.draw();
    this.onOpen(this.opened);
  }

  // Open a row by its number, wherever it is in the order.
  openRow(row) {
    const place = this.order.indexOf(row);
    if (place < 0) return;
    this.scrollTo(place);
    this.open(place);
  }
}

function cellClass(column) {
  return [column.kind === "text" ? "text" : "figure", column.room || "", column.wide ? "wide" : ""].join(" ");
}
