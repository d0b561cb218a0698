"""Text for people: escaping of untrusted text, such as label names, for terminals; readable sizes."""


def printable(text: str) -> str:
    r"""Escape (``\x1b``) all characters except printable ones and line breaks.

    A terminal would otherwise execute control sequences in the text.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def readable_bytes(n_bytes: float) -> str:
    """Human-readable size with decimal units: 1.9 MB."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.2f} GB"
