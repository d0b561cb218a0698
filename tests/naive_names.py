"""Slow, obvious twins of the kernels of label names and hierarchies."""

import math

import numpy as np


def similarity(word, term, prefix, least):
    """1 for equal words; with a common prefix, twice its length relative to the sum of the lengths; else 0."""
    common = 0
    while common < min(len(word), len(term)) and word[common] == term[common]:
        common += 1
    value = 2 * common / (len(word) + len(term))
    alike = common >= prefix and value >= least and " " not in term
    return 1.0 if word == term else value if alike else 0.0


def match(row, name, similar, weights):
    """(share, equal share, mass, words, weight, {word: entry of the row}) of a name, a set of words, in a dense row.

    Sums are of single precision, as in the kernel: of two names with the same share, rounding decides which is best.
    """
    total = sum((weights[word] for word in sorted(name)), start=np.float32(0))
    share = equal = mass = np.float32(0)
    by = {}
    entries = np.flatnonzero(row).tolist()
    for word in sorted(name):
        found = [
            (similar[feature, word], -place)
            for place, feature in enumerate(entries)
            if similar[feature, word] > 0
        ]
        if not found:
            continue
        best, place = max(found)
        by[word] = -place
        share += weights[word] * best
        equal += weights[word] * np.float32(best >= 0.999)
        mass += max(similar[feature, word] * max(row[feature], np.float32(0)) for feature in entries)
    scale = total or np.float32(1)
    return share / scale, equal / scale, mass, len(name), total, by


def best_name(row, names, similar, weights):
    """The number of the name of largest share, then mass, and its match; None without names."""
    matches = [match(row, name, similar, weights) for name in names]
    if not matches:
        return None
    best = max(range(len(names)), key=lambda i: (np.float32(matches[i][0]), np.float32(matches[i][2]), -i))
    return best, matches[best]


def propose(row, label_names, similar, weights):
    """{label: score} of the labels with a name whose heaviest word, and half of the weight, is found."""
    scores = {}
    for label, names in enumerate(label_names):
        for name in names:
            share, _, mass, _, _, by = match(row, name, similar, weights)
            if name and max(sorted(name), key=lambda word: weights[word]) in by and share >= 0.5:
                scores[label] = max(scores.get(label, 0.0), share * share * mass)
    return scores


def related(values, broader):
    """{label: (broader, narrower, sibling)} of the candidates ``values``, by label."""
    lines = {}
    for label in values:
        parents = broader[label]
        up = [values[other] for other in values if other in parents]
        down = [values[other] for other in values if label in broader[other]]
        side = [values[other] for other in values if other != label and set(parents) & set(broader[other])]
        lines[label] = tuple(max([0.0, *found]) for found in (up, down, side))
    return lines


def idf(n_rows, count):
    """Weight of a word."""
    return math.log((n_rows + 1) / (count + 1)) + 1


def part_margins(row, parts, weights, bias):
    """Mean, least and largest margin of the parts of a label; -1 without any."""
    margins = [row @ weights[part] + bias[part] for part in parts]
    return (sum(margins) / len(margins), min(margins), max(margins)) if margins else (-1, -1, -1)


def split(word, counts):
    """The parts of a word, by trying all; counts of the words of names."""
    counts = {other: min(count, 50) for other, count in counts.items() if len(other) >= 4}
    ways = [
        (counts[head] * counts[tail], -begin, -link, head, tail)
        for begin in range(len(word))
        for link in range(3)
        for head, tail in [(word[: max(begin - link, 0)], word[begin:])]
        if head in counts and tail in counts
    ]
    if not ways:
        return [word]
    *_, head, tail = max(ways)
    return split(head, counts) + split(tail, counts)
