"""URIs of labels: metadata that other systems identify labels by, such as Annif and linked-data catalogues."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sparseleaf._strings import PackedStrings
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.update import NewRows

ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\x00-\x20\x7f-\xa0<>\"{}|\\^`\u2028\u2029\ud800-\udfff]+")
"""An absolute URI or IRI: a scheme, a colon, and characters that need no escape."""

MAX_LENGTH = 2_000
"""Maximum number of characters of a URI."""


@register("uris")
@dataclass(frozen=True)
class LabelURIs(Stage):
    """One URI per label.

    Attributes
    ----------
    uris : tuple of str or None
        By number of the label; None for labels without a URI.
    """

    uris: tuple[str | None, ...]

    kind: ClassVar[str] = "uris"
    role: ClassVar[Role] = Role.URIS
    takes_nan: ClassVar[bool] = True

    @classmethod
    def of(cls, uris: tuple[str | None, ...]) -> Self:
        """From validated URIs; ValueError if one is not absolute, or two labels have the same."""
        known = [uri for uri in uris if uri is not None]
        for uri in known:
            check_uri(uri)
        if len(set(known)) < len(known):
            seen: set[str] = set()
            repeated = next(uri for uri in known if uri in seen or seen.add(uri))  # type: ignore[func-returns-value]
            raise ValueError(f"The URIs of labels must be distinct. Got {repeated!r:.80} twice instead.")
        return cls(uris)

    @classmethod
    def from_mapping(cls, mapping: Mapping[Any, str], labels: list[Any]) -> Self:
        """The URIs of these labels; the mapping may have others. ValueError if it has none of them."""
        by_name = {str(label): uri for label, uri in mapping.items()}
        uris = tuple(by_name.get(str(label)) for label in labels)
        if all(uri is None for uri in uris):
            label, other = (next(map(str, some), None) for some in (labels, by_name))
            raise ValueError(
                f"The 'uris' parameter must have labels of the model, such as {label!r:.60}. Got {other!r:.60} instead."
            )
        return cls.of(uris)

    def apply(self, before: Scores) -> Scores:
        """Scores do not change."""
        return before

    def updated(self, new: NewRows) -> LabelURIs:
        """See :class:`~sparseleaf.model.stage.Stage`; new labels have no URI."""
        return replace(self, uris=self.uris + (None,) * (new.n_labels - len(self.uris)))

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; a label without a URI has the empty string."""
        return PackedStrings.of([uri or "" for uri in self.uris]).tensors()

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        packed = PackedStrings.from_tensors(source, source.n_labels)
        whole, ends = packed.text.tobytes(), packed.offsets.tolist()
        texts = (whole[a:b].decode() for a, b in pairwise(ends))  # ValueError if not UTF-8
        return cls.of(tuple(text or None for text in texts))

    def describe(self) -> dict[str, Any]:
        """Number of labels with a URI."""
        return {"label_uris": sum(uri is not None for uri in self.uris)}


def check_uri(uri: Any) -> None:
    """Raise ValueError unless it is an absolute URI."""
    if not isinstance(uri, str) or len(uri) > MAX_LENGTH or not ABSOLUTE.fullmatch(uri):
        raise ValueError(
            f"A URI must be absolute, such as 'https://example.org/12', without spaces, and have at most {MAX_LENGTH:,}"
            f" characters. Got {uri!r:.80} instead."
        )
