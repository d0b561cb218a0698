// Panels are filled when they are opened for the first time.

async function main() {
  const status = document.getElementById("status");
  if (typeof DecompressionStream === "undefined") {
    status.textContent = "This browser is too old for the tables of this report; the overview and the model are shown.";
    return;
  }
  const source = document.getElementById("payload");
  const data = await readPayload(source.textContent);
  source.remove();
  const names = data.labels ? data.labels.names : data.outputs.names;
  const panel = (id) => document.getElementById(id);
  let openRow = null;
  const makers = {
    rows: () => {
      openRow = makeRows(panel("rows"), data);
    },
    trees: () => makeTrees(panel("trees"), data, names),
    examples: () => makeExamples(panel("examples"), data, names, showRow),
  };

  function onOpen(id) {
    const make = makers[id];
    delete makers[id];
    if (make) make();
  }

  function showRow(row) {
    openTab("rows");
    openRow(row);
  }

  const openTab = makeTabs(panel("tabs"), onOpen);
  status.hidden = true;
  document.documentElement.dataset.ready = "true";
}

main().catch((error) => {
  document.getElementById("status").textContent = `The report cannot be shown: ${error.message}`;
  throw error;
});
