"""The ``eval_set`` argument of ``fit``: one validation set, or a list of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Checked = TypeVar("Checked")

EvalSet = tuple[Any, ...] | Sequence[tuple[Any, ...]] | None

VALID = "valid"
"""Prefix of metric names in the history."""


def eval_sets(eval_set: Any, form: str = "(X, y)") -> list[tuple[Any, ...]]:
    """Normalise ``eval_set`` to a list of tuples.

    Parameters
    ----------
    eval_set : None, a tuple (X, y), or a sequence of such tuples
        A list ``[X, y]`` is accepted as a tuple.
    form : str
        Form of a set, for the error message.
    """
    size = form.count(",") + 1
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple | list):
        if all(_is_set(one, size) for one in eval_set):
            return [tuple(one) for one in eval_set]
        if len(eval_set) == size:
            return [tuple(eval_set)]
    got = f"a {type(eval_set).__name__}"
    if isinstance(eval_set, tuple | list):
        got += f" of {len(eval_set)}"
    raise ValueError(
        f"The 'eval_set' parameter must be a tuple {form} or a list of such tuples. Got {got} instead."
    )


def _is_set(value: Any, size: int) -> bool:
    """Whether this is a set, not a row of features, which may be a list too but begins with a number."""
    if not isinstance(value, tuple | list) or len(value) != size:
        return False
    return hasattr(value[0], "shape") or (isinstance(value, tuple) and isinstance(value[0], list | tuple))


def eval_names(count: int) -> list[str]:
    """Names of the sets in the history: ``valid``, or ``valid_0``, ``valid_1``, …."""
    return [VALID] if count == 1 else [f"{VALID}_{number}" for number in range(count)]


def validated(history: Mapping[str, Sequence[float]], metric: str, n_rounds: int) -> float | None:
    """A metric on the last validation set after this many rounds, beyond which a history may go on.

    None without a validation set.
    """
    curves = [
        values
        for name, values in history.items()
        if name.startswith(VALID) and name.endswith(f" {metric}") and values
    ]
    return curves[-1][min(n_rounds, len(curves[-1])) - 1] if curves else None


def check_each(sets: Sequence[tuple[Any, ...]], check: Callable[..., Checked]) -> list[Checked]:
    """Apply ``check`` to every set; errors name the set."""
    checked = []
    for number, one in enumerate(sets):
        try:
            checked.append(check(*one))
        except ValueError as error:
            which = "eval_set" if len(sets) == 1 else f"eval_set[{number}]"
            raise ValueError(f"{which}: {error}") from error
    return checked
