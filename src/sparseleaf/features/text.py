"""The text vectoriser: a scikit-learn transformer from texts or records to tf-idf features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.features.records import columns_of, mean_lengths
from sparseleaf.features.settings import MAPPINGS, RULES, TextSettings
from sparseleaf.features.stage import TextStage
from sparseleaf.progress import phase, reporting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import scipy.sparse as sp

    from sparseleaf._arrays import Array


class TextVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Convert texts, or records with text fields, to sparse tf-idf features.

    Parameters that scikit-learn's :class:`~sklearn.feature_extraction.text.TfidfVectorizer` has, too, have its meaning;
    with ``tokenizer="sklearn"`` the result is identical, column by column. Texts are split, counted and weighted in
    parallel by compiled code, and a fitted vectoriser can be stored in a model file.

    Parameters
    ----------
    analyzer : {'word', 'char', 'char_wb'}, default='word'
        Whether features are n-grams of words, of characters, or of characters inside words.
    ngram_range : tuple (min_n, max_n), default=(1, 1)
        Range of the length of n-grams.
    char_ngram_range : tuple (min_n, max_n) or None, default=None
        Add character n-grams inside words (``char_wb``) of these lengths to the words.
    char_weight : float, default=1.0
        Factor of the values of these character n-grams, which are normalised separately.
    tokenizer : {'unicode', 'sklearn'}, default='unicode'
        How words are found. ``"sklearn"``: runs of two or more word characters, the pattern ``(?u)\b\w\w+\b`` of
        scikit-learn. ``"unicode"``: the same, except that combining marks do not end a word, soft hyphens are ignored,
        decomposed characters are composed, and runs of scripts that are written without spaces (Chinese, Japanese,
        Thai, Lao, Khmer, Burmese) are split into overlapping pairs of characters.
    lowercase : bool, default=True
        Convert texts to lower case.
    strip_accents : {'ascii', 'unicode'} or None, default=None
        Remove accents after decomposition of characters; ``"ascii"`` removes all other characters, too.
    stop_words : list of str or None, default=None
        Words to ignore, before n-grams are formed.
    min_df : int or float, default=1
        Ignore terms that are in fewer rows: a number of rows (int) or a fraction (float).
    max_df : int or float, default=1.0
        Ignore terms that are in more rows: a number of rows (int) or a fraction (float).
    max_features : int or None, default=None
        Keep only this number of terms, those with the most occurrences; ties in alphabetical order. With several
        vocabularies, the limit of each.
    binary : bool, default=False
        Whether the term frequency is 1 for every term that occurs.
    sublinear_tf : bool, default=True
        Replace the term frequency tf by 1 + log(tf); frequencies below 1, possible with weights of fields, are kept.
    use_idf : bool, default=True
        Multiply by the inverse document frequency.
    smooth_idf : bool, default=True
        Add one to document frequencies, as if an extra row had all terms.
    norm : {'l1', 'l2'} or None, default='l2'
        Norm that every row is scaled to.
    n_hash_features : int or None, default=None
        Number of columns for hashed terms. No vocabulary is stored; different terms may share a column.
    alternate_sign : bool, default=False
        With hashing, give half of the terms a negative sign, so that shared columns cancel on average. Requires
        ``sublinear_tf=False``.
    fields : str, list of str, dict of weights by name, or None, default=None
        Text fields. The input is then a DataFrame or a list of dicts; missing texts are empty. None for plain texts.
        Without weights, fields of shorter texts get higher ones: the longest has weight 1, others the square root of
        how many times shorter their texts are on average.
    shared_vocabulary : bool, default=True
        Whether fields have common columns, where the term frequency is the weighted sum over the fields; otherwise
        every field has columns of its own, normalised separately and multiplied by its weight.
    numeric : str, list of str, dict of weights by name, or None, default=None
        Numeric columns beside the text. They are standardised; a missing value is 0, the mean.
    categorical : str, list of str, dict of weights by name, or None, default=None
        Categorical columns beside the text. Each known category has a column; missing and unknown ones have none.
    n_jobs : int or None, default=None
        Number of threads; None, 0 or -1 for all cores. The result does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    stage_ : TextStage
        The fitted stage for a model.

    Examples
    --------
    >>> from sparseleaf import TextVectorizer
    >>> vectorizer = TextVectorizer().fit(["Pilze im Fachwerk", "Fachwerk und Fassade"])
    >>> vectorizer.get_feature_names_out().tolist()
    ['fachwerk', 'fassade', 'im', 'pilze', 'und']
    >>> vectorizer.transform(["Pilze"]).toarray().tolist()
    [[0.0, 0.0, 0.0, 1.0, 0.0]]

    Records with several fields:

    >>> records = [{"title": "Pilze", "abstract": "Schäden an Fassaden", "year": 2001, "lang": "de"}]
    >>> vectorizer = TextVectorizer(fields={"title": 2.0, "abstract": 1.0}, numeric="year", categorical="lang")
    >>> vectorizer.fit(records).get_feature_names_out().tolist()
    ['an', 'fassaden', 'pilze', 'schäden', 'year', 'lang=de']
    """

    stage_: TextStage

    def __init__(
        self,
        *,
        analyzer: str = "word",
        ngram_range: tuple[int, int] = (1, 1),
        char_ngram_range: tuple[int, int] | None = None,
        char_weight: float = 1.0,
        tokenizer: str = "unicode",
        lowercase: bool = True,
        strip_accents: str | None = None,
        stop_words: Sequence[str] | None = None,
        min_df: float = 1,
        max_df: float = 1.0,
        max_features: int | None = None,
        binary: bool = False,
        sublinear_tf: bool = True,
        use_idf: bool = True,
        smooth_idf: bool = True,
        norm: str | None = "l2",
        n_hash_features: int | None = None,
        alternate_sign: bool = False,
        fields: str | Sequence[str] | Mapping[str, float] | None = None,
        shared_vocabulary: bool = True,
        numeric: str | Sequence[str] | Mapping[str, float] | None = None,
        categorical: str | Sequence[str] | Mapping[str, float] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.char_ngram_range = char_ngram_range
        self.char_weight = char_weight
        self.tokenizer = tokenizer
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.binary = binary
        self.sublinear_tf = sublinear_tf
        self.use_idf = use_idf
        self.smooth_idf = smooth_idf
        self.norm = norm
        self.n_hash_features = n_hash_features
        self.alternate_sign = alternate_sign
        self.fields = fields
        self.shared_vocabulary = shared_vocabulary
        self.numeric = numeric
        self.categorical = categorical
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the vocabulary and the document frequencies.

        Parameters
        ----------
        X : list, array or Series of str; with ``fields``, a DataFrame or a list of dicts
            Texts or records.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        self : object
            Fitted vectoriser.
        """
        self._fit(X, keep_rows=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> sp.csr_matrix:
        """Fit, and return the features of the same texts; faster than :meth:`fit` and :meth:`transform`.

        Parameters
        ----------
        X : list, array or Series of str; with ``fields``, a DataFrame or a list of dicts
            Texts or records.
        y : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        features : csr_matrix of float32, shape (n_rows, n_features)
            Features, with sorted indices.
        """
        return self._fit(X, keep_rows=True)

    def transform(self, X: Any) -> sp.csr_matrix:
        """Convert texts to features; unknown terms are ignored.

        Parameters
        ----------
        X : list, array or Series of str; with ``fields``, a DataFrame or a list of dicts
            Texts or records.

        Returns
        -------
        features : csr_matrix of float32, shape (n_rows, n_features)
            Features, with sorted indices.
        """
        return self.stage().transform(X, effective_n_jobs(self.n_jobs))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features: terms, with prefixes of fields and character n-grams.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn's pipelines.

        Returns
        -------
        names : ndarray of str objects
            One name per column.
        """
        return np.array(self.stage().feature_names(), object)

    def stage(self) -> TextStage:
        """The fitted stage, for a model."""
        check_is_fitted(self, "stage_")
        return self.stage_

    @classmethod
    def from_stage(cls, stage: TextStage) -> Self:
        """A fitted vectoriser with the parameters of a model's stage."""
        parameters: dict[str, Any] = {name: getattr(stage.parameters, name) for name in RULES}
        copies = {name: dict(parameters[name]) for name in MAPPINGS if parameters[name] is not None}
        vectorizer = cls(**(parameters | copies))
        vectorizer.stage_ = stage
        return vectorizer

    def _fit(self, X: Any, *, keep_rows: bool) -> Any:
        settings = TextSettings.of(self.get_params(deep=False))
        columns, n_rows = columns_of(X, settings, fitting=True)
        settings = settings.with_field_weights(mean_lengths(columns, settings))
        with reporting(self.verbose), phase("vectorising", n_rows * len(settings.blocks)) as advance:
            self.stage_, features = TextStage.fit(
                columns,
                n_rows,
                settings,
                effective_n_jobs(self.n_jobs),
                lambda done: advance(done, ""),
                keep_rows=keep_rows,
            )
        return features

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
