"""Options of the text vectoriser: validation, JSON form, and the blocks of columns that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from sparseleaf._arrays import LARGEST_COUNT

OWNER = "TextVectorizer"

ANALYZERS = ("word", "char", "char_wb")
TOKENIZERS = ("unicode", "sklearn")
ACCENTS = ("ascii", "unicode")
NORMS = ("l1", "l2")

MAX_NGRAM = 64
"""Maximum length of an n-gram."""

MAX_CHOSEN_WEIGHT = 8.0
"""Maximum weight of a field whose weight is not set."""

CHAR_PREFIX = "char:"
"""Prefix of the names of character n-grams beside words."""


class Block(NamedTuple):
    """A block of columns: the terms of one analyzer in one field, or in several fields with a common vocabulary.

    Attributes
    ----------
    prefix : str
        Of the names of its columns.
    fields : tuple of str or None
        Fields that it reads; None if records are plain texts.
    field_weights : tuple of float
        Weight of a term's occurrences in each field.
    weight : float
        Factor of the block's values after normalisation.
    analyzer : str
    ngram_range : tuple of int
    """

    prefix: str
    fields: tuple[str | None, ...]
    field_weights: tuple[float, ...]
    weight: float
    analyzer: str
    ngram_range: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """Validated parameters of :class:`~sparseleaf.TextVectorizer`, except ``n_jobs`` and ``verbose``.

    Weights of ``fields`` are None if they are to be chosen; those of a fitted vectoriser are numbers.
    """

    analyzer: str
    ngram_range: tuple[int, int]
    char_ngram_range: tuple[int, int] | None
    char_weight: float
    tokenizer: str
    lowercase: bool
    strip_accents: str | None
    stop_words: tuple[str, ...] | None
    min_df: float
    max_df: float
    max_features: int | None
    binary: bool
    sublinear_tf: bool
    use_idf: bool
    smooth_idf: bool
    norm: str | None
    n_hash_features: int | None
    alternate_sign: bool
    fields: dict[str, float | None] | None
    shared_vocabulary: bool
    numeric: dict[str, float] | None
    categorical: dict[str, float] | None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """From values of the parameters; ValueError in scikit-learn's form if one is invalid."""
        values = {}
        for name, rule in RULES.items():
            if not rule.valid(parameters[name]):
                raise ValueError(
                    f"The {name!r} parameter of {OWNER} must be {rule.text}. Got {parameters[name]!r:.80} instead."
                )
            values[name] = rule.plain(parameters[name])
        settings = cls(**values)
        settings._check_combinations()
        return settings

    def _check_combinations(self) -> None:
        if self.char_ngram_range is not None and self.analyzer != "word":
            raise ValueError(
                f"The 'char_ngram_range' parameter of {OWNER} must be None unless analyzer='word'."
                f" Got {self.char_ngram_range!r} instead."
            )
        if self.alternate_sign and self.sublinear_tf:
            raise ValueError(
                f"The 'alternate_sign' parameter of {OWNER} must be False with sublinear_tf=True, since counts of both"
                " signs have no logarithm. Got True instead."
            )
        if self.fields is None and (self.numeric or self.categorical):
            raise ValueError(
                f"The 'fields' parameter of {OWNER} must name the text columns if there are numeric or categorical"
                " columns. Got None instead."
            )
        names = [*(self.fields or ()), *(self.numeric or ()), *(self.categorical or ())]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"The 'fields', 'numeric' and 'categorical' parameters of {OWNER} must name different columns."
                f" Got {twice!r} twice."
            )

    def with_field_weights(self, lengths: Mapping[str, float]) -> Self:
        """Choose weights that are not set, from the mean length of the texts of every field.

        A short field, such as a title, says more per word. Relative to the longest, a field has the square root of the
        ratio of their lengths as weight. Fields without a common vocabulary are normalised anyway and have weight 1.
        """
        if self.fields is None:
            return self
        longest = max(lengths.values())
        weights = {}
        for name, weight in self.fields.items():
            if weight is None:
                ratio = longest / lengths[name] if self.shared_vocabulary and lengths[name] else 1.0
                weight = min(round(ratio**0.5, 1), MAX_CHOSEN_WEIGHT)
            weights[name] = weight
        return replace(self, fields=weights)

    @property
    def plain_field(self) -> str | None:
        """The field that a text without fields is taken for: that of the longest texts, which has the lowest weight."""
        if self.fields is None:
            return None
        weights = {name: 1.0 if weight is None else weight for name, weight in self.fields.items()}
        return min(weights, key=weights.__getitem__)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of text columns, in the order of the columns."""
        analyzers = [("", 1.0, self.analyzer, self.ngram_range)]
        if self.char_ngram_range is not None:
            analyzers.append((CHAR_PREFIX, self.char_weight, "char_wb", self.char_ngram_range))
        sources: list[tuple[str, tuple[str | None, ...], tuple[float, ...], float]]
        if self.fields is None:
            sources = [("", (None,), (1.0,), 1.0)]
        elif self.shared_vocabulary or len(self.fields) == 1:
            sources = [("", tuple(self.fields), tuple(weight or 1.0 for weight in self.fields.values()), 1.0)]
        else:
            sources = [(f"{name}:", (name,), (1.0,), weight or 1.0) for name, weight in self.fields.items()]
        return tuple(
            Block(f"{source}{prefix}", names, weights, weight * factor, analyzer, ngram_range)
            for source, names, weights, factor in sources
            for prefix, weight, analyzer, ngram_range in analyzers
        )

    # --- JSON

    def plain(self) -> dict[str, Any]:
        """JSON values by name; mappings as lists of pairs, which keep their order in a file."""
        return {
            name: [list(pair) for pair in value.items()] if isinstance(value, dict) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_plain(cls, values: object) -> Self:
        """From untrusted JSON values; ValueError if they are invalid."""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ValueError(f"the parameters must be {sorted(names)}; update sparseleaf")
        return cls.of(values | {name: _mapping(values[name], name) for name in MAPPINGS})


MAPPINGS = ("fields", "numeric", "categorical")


def _mapping(pairs: object, name: str) -> dict[str, float] | None:
    if pairs is None:
        return None
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _is_weight(pair[1])
        for pair in pairs
    ):
        raise ValueError(f"{name} must be pairs of a name and a weight")
    mapping = {pair[0]: pair[1] for pair in pairs}
    if len(mapping) < len(pairs):
        raise ValueError(f"{name} must be distinct")
    return mapping


# --- one rule per parameter


class _Rule(NamedTuple):
    """Valid values of a parameter, in words and as a test, and their conversion to plain Python values."""

    text: str
    valid: Callable[[Any], bool]
    plain: Callable[[Any], Any] = lambda value: value


def _is_int(value: Any, low: int, high: int = LARGEST_COUNT) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def _is_weight(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and 0 < value < np.inf)


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(_is_int(end, 1, MAX_NGRAM) for end in value)
        and value[0] <= value[1]
    )


def _is_frequency(value: Any) -> bool:
    return _is_int(value, 1) or bool(isinstance(value, float | np.floating) and 0 <= value <= 1)


def _is_names(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(name, str) and _is_weight(w) for name, w in value.items())
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def _weights(value: Any, default: float | None = 1.0) -> dict[str, float | None] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {name: float(weight) for name, weight in value.items()}
    return dict.fromkeys([value] if isinstance(value, str) else value, default)


def _choice(choices: tuple[str, ...], *, optional: bool = False) -> _Rule:
    text = "one of {" + ", ".join(map(repr, choices)) + "}" + (" or None" if optional else "")
    return _Rule(text, lambda v: (optional and v is None) or (isinstance(v, str) and v in choices))


def _frequency() -> _Rule:
    return _Rule(
        "an int >= 1 (rows) or a float in [0, 1] (fraction of rows)",
        _is_frequency,
        lambda v: int(v) if isinstance(v, int | np.integer) else float(v),
    )


def _ngrams(*, optional: bool = False) -> _Rule:
    return _Rule(
        f"a pair (min_n, max_n) of ints with 1 <= min_n <= max_n <= {MAX_NGRAM}" + " or None" * optional,
        lambda v: (optional and v is None) or _is_range(v),
        lambda v: None if v is None else (int(v[0]), int(v[1])),
    )


def _count(low: int, what: str = "") -> _Rule:
    return _Rule(
        f"an int >= {low}{what} or None",
        lambda v: v is None or _is_int(v, low),
        lambda v: None if v is None else int(v),
    )


_FLAG = _Rule("a bool", lambda v: isinstance(v, bool | np.bool_), bool)
_COLUMNS = _Rule(
    "a name, a list of distinct names, a dict of weights > 0 by name, or None",
    lambda v: v is None or _is_names(v),
    _weights,
)

RULES: dict[str, _Rule] = {
    "analyzer": _choice(ANALYZERS),
    "ngram_range": _ngrams(),
    "char_ngram_range": _ngrams(optional=True),
    "char_weight": _Rule("a number > 0", _is_weight, float),
    "tokenizer": _choice(TOKENIZERS),
    "lowercase": _FLAG,
    "strip_accents": _choice(ACCENTS, optional=True),
    "stop_words": _Rule(
        "a list of str or None",
        lambda v: (
            v is None
            or (isinstance(v, list | tuple | set | frozenset) and all(isinstance(word, str) for word in v))
        ),
        lambda v: None if v is None else tuple(sorted(set(v))),
    ),
    "min_df": _frequency(),
    "max_df": _frequency(),
    "max_features": _count(1),
    "binary": _FLAG,
    "sublinear_tf": _FLAG,
    "use_idf": _FLAG,
    "smooth_idf": _FLAG,
    "norm": _choice(NORMS, optional=True),
    "n_hash_features": _count(1),
    "alternate_sign": _FLAG,
    "fields": _COLUMNS._replace(plain=partial(_weights, default=None)),
    "shared_vocabulary": _FLAG,
    "numeric": _COLUMNS,
    "categorical": _COLUMNS,
}
