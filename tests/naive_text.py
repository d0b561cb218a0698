"""The text kernels in plain Python. The tables of characters are (lowercase, strip_accents, tokenizer)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from itertools import pairwise

import numpy as np
from sklearn.utils import murmurhash3_32

WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3021, 0x30FF),
    (0x3100, 0x312F),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


class TextAnalyzer:
    def __init__(self, tables, analyzer, min_n, max_n, stop_text, stop_lengths, field_weights, binary):
        self.lowercase, self.strip_accents, self.tokenizer = tables
        self.analyzer, self.min_n, self.max_n = analyzer, min_n, max_n
        ends = np.cumsum(stop_lengths).tolist()
        whole = stop_text.tobytes()
        self.stop = {whole[a:b].decode() for a, b in pairwise([0, *ends])}
        self.field_weights, self.binary = field_weights.tolist(), binary

    def terms(self, text):
        text = self.fold(text)
        return [self.words, self.chars, self.chars_wb][self.analyzer](text)

    def fold(self, text):
        if self.lowercase:
            text = text.lower()
        if self.tokenizer == "unicode":
            text = text.replace("\xad", "")
        if self.strip_accents is None:
            return text
        text = unicodedata.normalize("NFKD", text)
        if self.strip_accents == "ascii":
            return text.encode("ASCII", "ignore").decode()
        return "".join(c for c in text if not unicodedata.combining(c))

    def words(self, text):
        sklearn = self.tokenizer == "sklearn"
        tokens = re.findall(r"(?u)\b\w\w+\b", text) if sklearn else unicode_tokens(text)
        tokens = [token for token in tokens if token not in self.stop]
        return [
            " ".join(tokens[i : i + n])
            for n in range(self.min_n, self.max_n + 1)
            for i in range(len(tokens) - n + 1)
        ]

    def chars(self, text):
        text = re.sub(r"\s\s+", " ", text)
        return [text[i : i + n] for n in range(self.min_n, self.max_n + 1) for i in range(len(text) - n + 1)]

    def chars_wb(self, text):
        terms = []
        for word in text.split():
            word = f" {word} "
            for n in range(self.min_n, self.max_n + 1):
                terms += [word[i : i + n] for i in range(max(1, len(word) - n + 1))]
                if len(word) <= n:
                    break
        return terms

    def counted(self, fields):
        """Weight of every term of every row."""
        rows = []
        for texts in zip(*fields, strict=True):
            weights, counts = Counter(), Counter()
            for text, weight in zip(texts, self.field_weights, strict=True):
                here = Counter(self.terms(text))
                for term, count in here.items():
                    weights[term] = (
                        max(weights[term], weight) if self.binary else weights[term] + weight * count
                    )
                    counts[term] = 1 if self.binary else counts[term] + count
            rows.append((weights, counts))
        return rows


def kind(c):
    if unicodedata.category(c)[0] == "M" or c in "\u200c\u200d":
        return "mark"
    if c.isalpha() and any(a <= ord(c) <= b for a, b in WITHOUT_SPACES):
        return "ideograph"
    return "word" if c.isalnum() or c == "_" else "other"


def unicode_tokens(text):
    """Words with marks; runs of ideographs as pairs of characters with their marks."""
    runs = []  # (kind, list of characters with their marks)
    before = "other"
    for c in text:
        now = kind(c)
        if now == "mark":
            if before != "other":
                runs[-1][1][-1] += c
            continue
        if now != "other":
            if now != before:
                runs.append((now, []))
            runs[-1][1].append(c)
        before = now
    tokens = []
    for run, characters in runs:
        if run == "word":
            word = "".join(characters)
            tokens += [word] if len(word) > 1 else []
        elif len(characters) == 1:
            tokens += characters
        else:
            tokens += [a + b for a, b in pairwise(characters)]
    return tokens


class TermCounter:
    def __init__(self, analyzer, keep_rows):
        self.analyzer, self.counted = analyzer, []

    def add(self, fields, n_threads):
        self.counted += self.analyzer.counted(fields)

    def finish(self, min_count, max_count, max_terms, n_threads):
        documents, occurrences = Counter(), Counter()
        for _, counts in self.counted:
            documents.update(counts.keys())
            occurrences.update(counts)
        terms = [term for term, count in documents.items() if min_count <= count <= max_count]
        if max_terms:
            terms = sorted(terms, key=lambda term: (-occurrences[term], term))[:max_terms]
        terms.sort()
        self.place = {term: number for number, term in enumerate(terms)}
        encoded = [term.encode() for term in terms]
        return (
            np.frombuffer(b"".join(encoded), np.uint8),
            np.array([len(one) for one in encoded], np.uint32),
            np.array([documents[term] for term in terms], np.uint32),
        )

    def rows(self, n_threads):
        return packed(
            [{self.place[t]: w for t, w in row.items() if t in self.place} for row, _ in self.counted]
        )


def packed(rows):
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    entries = [entry for row in rows for entry in sorted(row.items())]
    columns = np.array([column for column, _ in entries], np.int32)
    return indptr, columns, np.array([value for _, value in entries], np.float32)


class TermIndex:
    def __init__(self, text, lengths):
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        whole = text.tobytes()
        terms = [whole[a:b].decode() for a, b in pairwise([0, *ends])]
        if sum(lengths.tolist()) != len(whole) or terms != sorted(set(terms)):
            raise ValueError("terms must be sorted")
        self.place = {term: number for number, term in enumerate(terms)}


def count_terms(analyzer, index, fields, n_threads):
    place = index.place
    return packed(
        [{place[t]: w for t, w in row.items() if t in place} for row, _ in analyzer.counted(fields)]
    )


def hash_terms(analyzer, n_columns, alternate_sign, fields, n_threads):
    binary = analyzer.binary
    rows = []
    for weights, _ in analyzer.counted(fields):
        row = {}
        for term, weight in weights.items():
            number = murmurhash3_32(term.encode(), seed=0)
            sign = -1 if alternate_sign and not binary and number < 0 else 1
            column = abs(number) % n_columns
            row[column] = max(row.get(column, 0), weight) if binary else row.get(column, 0) + sign * weight
        rows.append(row)
    return packed(rows)


def weigh_terms(indptr, columns, values, idf, sublinear, norm, weight, n_threads):
    for begin, end in pairwise(indptr):
        row = [float(v) for v in values[begin:end]]
        if sublinear:
            row = [1 + math.log(v) if v >= 1 else v for v in row]
        if len(idf):
            row = [v * idf[c] for v, c in zip(row, columns[begin:end], strict=True)]
        size = 1.0
        if norm == 1:
            size = sum(abs(v) for v in row)
        if norm == 2:
            size = math.sqrt(sum(v * v for v in row))
        values[begin:end] = [v / (size or 1.0) * weight for v in row]


def join_columns(parts, offsets, n_threads):
    rows = []
    for row in range(len(parts[0][0]) - 1):
        entries = {}
        for (indptr, columns, values), offset in zip(parts, offsets, strict=True):
            here = slice(indptr[row], indptr[row + 1])
            entries |= dict(zip((columns[here] + offset).tolist(), values[here].tolist(), strict=True))
        rows.append(entries)
    return packed(rows)
