// A searchable table with the details of one of its rows beside it.

function tableWithDetails(panel, { columns, nRows, caption, sortedBy, ascending, names, groups, groupOf, note, describe }) {
  const details = element("aside", { class: "details", "aria-live": "polite", "aria-label": "Details" });
  details.append(element("p", { class: "note" }, "Choose a row of the table for its details."));
  const table = new BigTable({
    columns,
    nRows,
    caption,
    sortedBy,
    descending: !ascending,
    onOpen: (row) => details.replaceChildren(...describe(row, openRow)),
  });
  const lowered = names.map((name) => name.toLowerCase());
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": `Search ${caption}` });
  const group = element(
    "select",
    { "aria-label": "Group" },
    element("option", { value: "" }, `all ${caption.toLowerCase()}`),
    ...groups.map((name, number) => element("option", { value: number }, name)),
  );
  const shown = element("output", {});

  function update() {
    const text = search.value.trim().toLowerCase();
    const number = group.value;
    const n = table.filter((row) => lowered[row].includes(text) && (number === "" || groupOf[row] === Number(number)));
    shown.textContent = n === nRows ? formats.count(n) : `${formats.count(n)} of ${formats.count(nRows)}`;
  }

  // A row that the search excludes becomes visible again.
  function openRow(row) {
    if (!table.order.includes(row)) {
      search.value = "";
      group.value = "";
      update();
    }
    table.openRow(row);
  }

  search.addEventListener("input", update);
  group.addEventListener("change", update);
  const tools = element("div", { class: "tools" }, search, groups.length ? group : null, shown);
  panel.append(element("h2", {}, caption));
  if (note) panel.append(element("p", { class: "note" }, note));
  panel.append(tools, element("div", { class: "beside" }, table.view, details));
  update();
  return openRow;
}
