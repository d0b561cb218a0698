// The tables of labels, outputs and queries.

function ratio(hits, total) {
  return total > 0 ? hits / total : NaN;
}

function featureTexts(data, table, row, most) {
  if (!table.features) return [];
  return entriesOf(table.features, row, table.features.weights)
    .slice(0, most)
    .map(([id, weight]) => [data.features[id], weight / 1000]);
}

const featureColumn = (data, table) => ({
  title: "Features",
  kind: "text",
  wide: true,
  get: (row) => featureTexts(data, table, row, 4).map(([name]) => name).join(", "),
});

const tables = {
  labels(data) {
    const labels = data.labels;
    const precision = (row) => ratio(labels.hits[row], labels.predicted[row]);
    const recall = (row) => ratio(labels.hits[row], labels.true[row]);
    const f1 = (row) => ratio(2 * labels.hits[row], labels.predicted[row] + labels.true[row]);
    const confused = (row) => entriesOf(labels.missed, row, labels.missed.counts);
    return {
      caption: "Labels",
      names: labels.names,
      note: labels.note,
      sortedBy: 2,
      groups: ["head", "torso", "tail"],
      groupOf: labels.group,
      columns: [
        { title: "Label", kind: "text", values: labels.names, room: "narrow", wide: true },
        { title: "Training", kind: "count", values: labels.train },
        { title: "Data", kind: "count", values: labels.true, room: "narrow" },
        { title: "Predicted", kind: "count", values: labels.predicted, room: "roomy" },
        { title: "Precision", kind: "percent", get: precision },
        { title: "Recall", kind: "percent", get: recall },
        { title: "F1", kind: "percent", get: f1, room: "narrow" },
        featureColumn(data, labels),
        {
          title: "Confused with",
          kind: "text",
          wide: true,
          room: "roomy",
          get: (row) => confused(row).slice(0, 3).map(([id]) => labels.names[id]).join(", "),
        },
      ],
      describe: (row, openRow) => [
        element("h3", {}, labels.names[row]),
        facts([
          ["rows in training", formats.count(labels.train[row])],
          ["rows in the data", formats.count(labels.true[row])],
          ["predicted in", formats.count(labels.predicted[row])],
          ["of these correct", formats.count(labels.hits[row])],
          ["precision", formats.percent(precision(row))],
          ["recall", formats.percent(recall(row))],
          ["F1", formats.percent(f1(row))],
        ]),
        ...featureDetails(data, labels, row),
        ...confusionDetails("Predicted instead, where it was missed", labels, labels.missed, row, openRow),
        ...confusionDetails("True labels that were missed, where it was wrong", labels, labels.mistaken, row, openRow),
      ],
    };
  },

  outputs(data) {
    const outputs = data.outputs;
    return {
      caption: "Outputs",
      names: outputs.names,
      sortedBy: 4,
      ascending: true,
      groups: [],
      columns: [
        { title: "Output", kind: "text", values: outputs.names, room: "narrow", wide: true },
        { title: "Rows", kind: "count", values: outputs.known },
        { title: "RMSE", kind: "number", values: outputs.rmse, room: "narrow" },
        { title: "MAE", kind: "number", values: outputs.mae },
        { title: "R²", kind: "number", values: outputs.r2, room: "narrow" },
        { title: "Bias", kind: "number", values: outputs.bias },
        featureColumn(data, outputs),
      ],
      describe: (row) => [
        element("h3", {}, outputs.names[row]),
        facts([
          ["rows", formats.count(outputs.known[row])],
          ["RMSE", formats.number(outputs.rmse[row])],
          ["MAE", formats.number(outputs.mae[row])],
          ["R²", formats.number(outputs.r2[row])],
          ["mean of predicted − true", formats.number(outputs.bias[row])],
        ]),
        ...featureDetails(data, outputs, row),
      ],
    };
  },

  queries(data) {
    const queries = data.queries;
    return {
      caption: "Queries",
      names: queries.names,
      sortedBy: 1,
      groups: [],
      columns: [
        { title: "Query", kind: "text", values: queries.names, room: "narrow", wide: true },
        { title: "Documents", kind: "count", values: queries.documents, room: "narrow" },
        { title: "Relevant", kind: "count", values: queries.relevant },
        { title: "NDCG@1", kind: "number", values: queries.ndcg1 },
        { title: "NDCG@5", kind: "number", values: queries.ndcg5, room: "narrow" },
        { title: "NDCG@10", kind: "number", values: queries.ndcg10 },
        { title: "AP", kind: "number", values: queries.ap },
        { title: "RR", kind: "number", values: queries.rr },
      ],
      describe: (row) => [
        element("h3", {}, `Query ${queries.names[row]}`),
        facts([
          ["documents", formats.count(queries.documents[row])],
          ["relevant", formats.count(queries.relevant[row])],
          ["NDCG@10", formats.number(queries.ndcg10[row])],
          ["average precision", formats.number(queries.ap[row])],
          ["reciprocal rank", formats.number(queries.rr[row])],
        ]),
      ],
    };
  },
};

function facts(values) {
  const items = values.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element("dl", { class: "facts" }, ...items);
}

function featureDetails(data, table, row) {
  const entries = featureTexts(data, table, row, Infinity);
  if (!entries.length) return [];
  const title = data.task === "labels" ? "Discriminative features" : "Important features";
  return [element("h4", {}, title), barList(entries, (value) => formats.percent(value))];
}

function confusionDetails(title, labels, matrix, row, openRow) {
  const entries = entriesOf(matrix, row, matrix.counts);
  if (!entries.length) return [];
  const items = entries.map(([id, count]) =>
    element(
      "li",
      {},
      element("button", { type: "button", class: "link", onclick: () => openRow(id) }, labels.names[id]),
      ` ${formats.count(count)}×`,
    ),
  );
  return [element("h4", {}, title), element("ul", {}, ...items)];
}

function makeRows(panel, data) {
  const made = tables[data.task](data);
  return tableWithDetails(panel, { ...made, nRows: made.names.length });
}
