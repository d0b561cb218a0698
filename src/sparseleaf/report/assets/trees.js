// The tree browser: an ARIA tree whose nodes are made when their parent is opened, and details of the chosen node.

const NOTES = {
  axis: "Rows that fulfil the condition of a node go to its first child (yes), all others to its second one.",
  routed: "A row goes to the child whose features have the largest weights; each child is named by some of them.",
};

function makeTrees(panel, data, labelNames) {
  const { trees, columns, n_trees: nTrees, outputs } = data.trees;
  if (!trees.length) {
    panel.append(element("p", { class: "note" }, "The report has no trees."));
    return;
  }
  const choice = element(
    "select",
    { "aria-label": "Tree" },
    ...trees.map((tree, number) => element("option", { value: number }, tree.name)),
  );
  const root = element("ul", { role: "tree", "aria-label": "Nodes" });
  const details = element("aside", { class: "details", "aria-live": "polite", "aria-label": "Node" });
  const view = { data, columns, labelNames, outputs, details, root };
  const show = () => showTree(view, trees[Number(choice.value)]);
  choice.addEventListener("change", show);
  root.addEventListener("click", (event) => onTreeClick(view, event));
  root.addEventListener("keydown", (event) => onTreeKey(view, event));
  panel.append(
    element("h2", {}, "Trees"),
    element("p", { class: "note" }, `${trees.length} of ${formats.count(nTrees)} trees. ${NOTES[trees[0].kind]}`),
    element("div", { class: "tools" }, choice),
    element("div", { class: "beside" }, element("div", { class: "view" }, root), details),
  );
  show();
}

function showTree(view, tree) {
  view.tree = tree;
  const first = treeItem(view, 0, "root");
  view.root.replaceChildren(first);
  expand(view, first, true);
  choose(view, first, false);
}

function nodeText(view, node) {
  const { tree } = view;
  if (tree.child[node] < 0) {
    const [count, labels] = tree.leaves[node];
    const names = labels.slice(0, 3).map((label) => view.labelNames[label]);
    return `leaf: ${names.join(", ")}${count > names.length ? ", …" : ""}`;
  }
  if (tree.kind === "axis") return `${view.columns[tree.column[node]].name} ${tree.test[node]}`;
  return "";
}

// What the edge to a child stands for.
function edgeText(view, parent, position) {
  const { tree } = view;
  if (tree.kind === "axis") return position === 0 ? "yes" : "no";
  const [ids] = tree.routers[parent][position];
  return ids.slice(0, 3).map((id) => view.data.features[id]).join(", ") || `child ${position + 1}`;
}

function treeItem(view, node, edge) {
  const { tree } = view;
  const isLeaf = tree.child[node] < 0;
  const rows = tree.rows ? tree.rows[node] : null;
  const line = element(
    "span",
    { class: "node" },
    element("span", { class: "edge" }, edge),
    ` ${nodeText(view, node)}`,
    rows === null ? null : element("span", { class: "soft" }, ` ${formats.count(rows)} rows`),
  );
  return element(
    "li",
    { role: "treeitem", "data-node": node, tabindex: "-1", "aria-expanded": isLeaf ? null : "false", "aria-selected": "false" },
    line,
  );
}

function expand(view, item, open) {
  if (!item.hasAttribute("aria-expanded")) return;
  item.setAttribute("aria-expanded", open);
  let group = item.querySelector(":scope > [role=group]");
  if (open && !group) {
    const node = Number(item.dataset.node);
    const { child, arity } = view.tree;
    group = element("ul", { role: "group" });
    for (let position = 0; position < arity; position++) {
      const at = child[node] + position;
      group.append(
        at < child.length
          ? treeItem(view, at, edgeText(view, node, position))
          : element("li", { role: "none", class: "soft" }, "not in the report: the tree is too large"),
      );
    }
    item.append(group);
  }
  if (group) group.hidden = !open;
}

function choose(view, item, focus) {
  const before = view.root.querySelector("[aria-selected=true]");
  if (before) {
    before.setAttribute("aria-selected", "false");
    before.tabIndex = -1;
  }
  item.setAttribute("aria-selected", "true");
  item.tabIndex = 0;
  if (focus) {
    item.focus({ preventScroll: true });
    keepVisible(item.firstChild, view.root.parentElement);
  }
  view.details.replaceChildren(...describeNode(view, Number(item.dataset.node)));
}

// Scroll up or down, not sideways: the lines of a tree may be long.
function keepVisible(line, box) {
  const [inner, outer] = [line.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}

function describeNode(view, node) {
  const { tree, data } = view;
  const rows = tree.rows ? tree.rows[node] : null;
  const head = [element("h3", {}, `Node ${node}`)];
  if (rows !== null) head.push(facts([["training rows", formats.count(rows)]]));
  if (tree.child[node] < 0) {
    const [count, labels, values] = tree.leaves[node];
    const what = view.outputs ? "outputs" : "labels";
    const title = `Leaf with ${formats.count(count)} ${what}: ${tree.value}`;
    const entries = labels.map((label, at) => [view.labelNames[label], values[at]]);
    return [...head, element("h4", {}, title), barList(entries, formats.number)];
  }
  if (tree.kind === "axis") {
    const column = view.columns[tree.column[node]];
    const parts = [...head, element("h4", {}, "Split"), element("p", {}, `${column.name} ${tree.test[node]}`)];
    if (!column.features.length) return parts;
    const entries = column.features.map((id, at) => [data.features[id], column.weights[at]]);
    return [...parts, element("h4", {}, "Features of largest weight in the projection"), barList(entries, signed)];
  }
  const children = tree.routers[node].flatMap(([ids, weights], position) => [
    element("h4", {}, `Child ${position + 1}`),
    ids.length
      ? barList(ids.map((id, at) => [data.features[id], weights[at]]), formats.number)
      : element("p", { class: "note" }, "No feature speaks for this child."),
  ]);
  const note = "Features of largest weight for each child, relative to the mean of all children.";
  return [...head, element("p", { class: "note" }, note), ...children];
}

function onTreeClick(view, event) {
  const item = event.target.closest("[role=treeitem]");
  if (!item) return;
  choose(view, item, true);
  expand(view, item, item.getAttribute("aria-expanded") !== "true");
}

function onTreeKey(view, event) {
  const items = [...view.root.querySelectorAll("[role=treeitem]")].filter((item) => item.offsetParent !== null);
  const at = items.indexOf(document.activeElement);
  if (at < 0) return;
  const item = items[at];
  const isOpen = item.getAttribute("aria-expanded") === "true";
  const parent = item.parentElement.closest("[role=treeitem]");
  const moves = { ArrowDown: items[at + 1], ArrowUp: items[at - 1], Home: items[0], End: items[items.length - 1] };
  if (event.key === "ArrowRight" && !isOpen) expand(view, item, true);
  else if (event.key === "ArrowRight") choose(view, items[at + 1] || item, true);
  else if (event.key === "ArrowLeft" && isOpen) expand(view, item, false);
  else if (event.key === "ArrowLeft" && parent) choose(view, parent, true);
  else if (event.key === "Enter" || event.key === " ") expand(view, item, !isOpen);
  else if (event.key in moves) choose(view, moves[event.key] || item, true);
  else return;
  event.preventDefault();
}
