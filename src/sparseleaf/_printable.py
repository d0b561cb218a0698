"""Text that is safe to show: names of features and labels may come from a stranger's file."""


def printable(text: str) -> str:
    r"""The text with escapes (``\x1b``) for all but printable characters and line breaks.

    A terminal would otherwise obey what is in the names: colours, titles, cleared screens, reversed text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
