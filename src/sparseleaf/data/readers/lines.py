"""Reader of plain text: one text per line, without labels."""

from __future__ import annotations

from sparseleaf._files import read_lines
from sparseleaf.data.reading import LINES, Reader, Rows, Source, register


@register
class LinesReader(Reader):
    """Read one text per line. Empty lines are empty texts, so that predictions match the lines."""

    name = LINES
    suffixes = (".txt",)
    has_features = False
    has_texts = True

    def read(self, source: Source) -> Rows:
        """Read the texts."""
        if source.labelled:
            raise ValueError(
                f"{source.files}: plain lines have no labels; use JSON lines, CSV or Parquet with a label column."
            )
        texts = []
        for path in source.paths:
            for number, line in enumerate(read_lines(path), start=1):
                try:
                    texts.append(line.decode())
                except UnicodeDecodeError:
                    raise ValueError(f"{path}: line {number}: the text is not valid UTF-8.") from None
        return Rows(texts, None)
