// Tabs by the ARIA pattern: arrow keys, Home and End move between them.

function makeTabs(list, onOpen) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const panelOf = (tab) => document.getElementById(tab.getAttribute("aria-controls"));

  function open(tab, focus) {
    for (const other of tabs) {
      const selected = other === tab;
      other.setAttribute("aria-selected", selected);
      other.tabIndex = selected ? 0 : -1;
      panelOf(other).hidden = !selected;
    }
    if (focus) tab.focus();
    onOpen(panelOf(tab).id);
  }

  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) open(tab, true);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    open(tabs[(steps[event.key] + tabs.length) % tabs.length], true);
  });
  return (id) => open(tabs.find((tab) => panelOf(tab).id === id), false);
}
