"""What the site adds to the Markdown pages, which GitHub shows as they are.

- `SparseGBDTClassifier`, any name of the API reference in inline code, links to its page there.
- A link to a script of examples/ leads to its page of the gallery.
- In pages on migrating, the code of another library and ours stand side by side.
- Words in a column of numbers, such as the reason why there is none, are aligned left and wrap.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform


def public_names(reference: str, home: str) -> dict[str, str]:
    """Names of the API reference, bare or with their module, to full names.

    Of a bare name in two modules, that of the module ``home`` counts; without one, the name is left out.
    """
    full: dict[str, str] = {}
    bare: dict[str, set[str]] = {}
    module = ""
    for line in reference.splitlines():
        if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.fullmatch(r"   (\w+)", line):
            name = f"{module}.{match[1]}"
            full[name] = name
            bare.setdefault(match[1], set()).add(name)
    unique = {name: min(homes) for name, homes in bare.items() if len(homes) == 1}
    return (
        full | unique | {name: f"{home}.{name}" for name, homes in bare.items() if f"{home}.{name}" in homes}
    )


class LinkPublicNames(SphinxTransform):
    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        if not str(self.env.doc2path(self.env.docname)).endswith(".md"):
            return
        pages = sorted((Path(self.app.srcdir) / "api").glob("*.rst"))
        reference = "\n".join(page.read_text() for page in pages if page.stem != "index")
        home = "sparseleaf.spark" if self.env.docname == "spark" else "sparseleaf"
        names = public_names(reference, home)
        for literal in list(self.document.findall(nodes.literal)):
            name = names.get(literal.astext())
            if name is None or isinstance(literal.parent, nodes.title | nodes.reference | pending_xref):
                continue
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=name, refexplicit=True)
            literal.replace_self(link)
            link += literal


class SideBySide(SphinxTransform):
    """``**XGBoost**``, a block of code, ``**sparseleaf**``, a block of code: two columns on wide screens."""

    default_priority = 410

    def apply(self, **kwargs: Any) -> None:
        if not self.env.docname.startswith("migrate/"):
            return
        for section in list(self.document.findall(nodes.section)):
            start = 0
            while start + 4 <= len(section):
                run = section.children[start : start + 4]
                if self._is_pair(run[:2]) and self._is_pair(run[2:]):
                    row = nodes.container(classes=["side-by-side"])
                    row += [nodes.container("", *run[:2]), nodes.container("", *run[2:])]
                    section[start : start + 4] = [row]
                start += 1

    @staticmethod
    def _is_title(node: nodes.Node) -> bool:
        return isinstance(node, nodes.paragraph) and node.astext() in [
            strong.astext() for strong in node.findall(nodes.strong)
        ]

    def _is_pair(self, run: list[nodes.Node]) -> bool:
        return self._is_title(run[0]) and isinstance(run[1], nodes.literal_block)


class WrapSentences(SphinxTransform):
    """Cells of right-aligned columns that hold words rather than numbers: numbers never wrap, sentences must."""

    default_priority = 420
    LONGEST_NUMBER = 20

    def apply(self, **kwargs: Any) -> None:
        for cell in self.document.findall(nodes.entry):
            text = cell.astext()
            if (
                "text-right" in cell["classes"]
                and len(text) > self.LONGEST_NUMBER
                and re.search(r"[a-z]{3}", text)
            ):
                cell["classes"] = ["text-left", "sentence"]


def link_gallery(app: Any, docname: str, source: list[str]) -> None:
    source[0] = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", r"](/gallery/\1.rst)", source[0])


def escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """|x| is an absolute value in our docstrings, not a substitution of reStructuredText."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith(">>>"):
            lines[i] = line.replace("|", "\\|")


def skip_constants(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Class constants that estimators share with their bases are not part of their interface."""
    return True if isinstance(thing, bool | int | float | str | tuple | frozenset) else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", escape_bars, priority=100)  # before numpydoc, which adds tables
    app.connect("autodoc-skip-member", skip_constants)
    app.connect("source-read", link_gallery)
    app.add_transform(LinkPublicNames)
    app.add_transform(SideBySide)
    app.add_transform(WrapSentences)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
