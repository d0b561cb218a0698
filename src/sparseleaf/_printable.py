"""Escaping of untrusted text, such as feature and label names, for terminals."""


def printable(text: str) -> str:
    r"""Escape (``\x1b``) all characters except printable ones and line breaks.

    A terminal would otherwise execute control sequences in the text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
