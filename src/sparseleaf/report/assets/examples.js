// Example rows: true and predicted labels or values, and the reasons for each prediction.

const TASKS = {
  labels: { error: "confident error", predicted: "score", link: "probability" },
  outputs: { error: "large error", predicted: "predicted", truth: "true" },
  queries: { error: "first document of a query with a low NDCG", predicted: "score", truth: "grade" },
};

function makeExamples(panel, data, names, openRow) {
  const { rows, note } = data.examples;
  panel.append(element("h2", {}, "Examples"));
  if (note) panel.append(element("p", { class: "note" }, note));
  if (!rows.length) panel.append(element("p", { class: "note" }, "The report has no examples."));
  for (const row of rows) panel.append(exampleRow(data, row, names, openRow));
}

function exampleRow(data, row, names, openRow) {
  const badge = row.kind === "error" ? element("span", { class: "badge" }, TASKS[data.task].error) : null;
  const article = element("article", {}, element("h3", {}, `Row ${row.row} `, badge));
  if (row.text !== null) article.append(element("p", { class: "record" }, row.text));
  if (row.true) article.append(element("p", {}, "True: ", ...labelChips(row.true, row, names, openRow)));
  for (const one of row.predicted) article.append(prediction(data, one, names));
  return article;
}

function labelChips(labels, row, names, openRow) {
  if (!labels.length) return ["none"];
  const ranked = new Set(row.predicted.map((one) => one.label));
  return labels.map((label) =>
    element(
      "button",
      {
        type: "button",
        class: ranked.has(label) ? "chip hit" : "chip miss",
        title: ranked.has(label) ? "among the predictions" : "not among the predictions",
        onclick: () => openRow(label),
      },
      names[label],
    ),
  );
}

function prediction(data, one, names) {
  const reasons = one.reasons;
  const words = TASKS[data.task];
  const linked = words.link && reasons && reasons.prediction !== null;
  const calibrated = linked ? `, ${words.link} ${formats.number(reasons.prediction)}` : "";
  const mark = one.hit === undefined ? "" : one.hit ? "✓ " : "✗ ";
  const truth = one.true === undefined || one.true === null ? "" : `, ${words.truth} ${formats.number(one.true)}`;
  const summary = element(
    "summary",
    { class: one.hit === undefined ? "" : one.hit ? "hit" : "miss" },
    element("span", { "aria-hidden": "true" }, mark),
    one.hit === undefined ? null : element("span", { class: "sr" }, one.hit ? "correct: " : "wrong: "),
    names[one.label],
    element("span", { class: "soft" }, ` ${words.predicted} ${formats.number(one.score)}${calibrated}${truth}`),
  );
  if (!reasons) return element("p", {}, ...summary.childNodes);
  const block = element("details", {}, summary);
  block.addEventListener("toggle", () => {
    if (block.open && block.childElementCount === 1) block.append(...reasonParts(data, reasons));
  });
  return block;
}

function reasonParts(data, reasons) {
  const entries = [["base", reasons.base ?? 0]];
  reasons.features.forEach((id, at) => {
    entries.push([data.features[id], reasons.contributions[at] ?? 0, `= ${formats.number(reasons.values[at])}`]);
  });
  if (reasons.n_others) entries.push([`${formats.count(reasons.n_others)} other features`, reasons.others ?? 0]);
  const parts = [barList(entries, signed)];
  if (data.task === "outputs" && reasons.prediction !== null) {
    parts.push(element("p", { class: "note" }, "Contributions add up to the score before the link function."));
  }
  const components = Object.entries(reasons.components);
  if (components.length > 1) {
    const text = components.map(([name, value]) => `${name} ${formats.number(value)}`).join(", ");
    parts.push(element("p", {}, `Components: ${text}`));
  }
  if (reasons.neighbours.length) {
    const items = reasons.neighbours.map(([row, similarity, title]) =>
      element("li", {}, `${title === null ? "" : `${title}, `}training row ${row}, similarity ${formats.number(similarity)}`),
    );
    parts.push(element("p", {}, "Similar training rows with this label:"), element("ul", {}, ...items));
  }
  return parts;
}
