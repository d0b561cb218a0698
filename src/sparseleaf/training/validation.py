"""Validation sets as a user gives them to ``fit``: one, or a list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Checked = TypeVar("Checked")

EvalSet = tuple[Any, ...] | Sequence[tuple[Any, ...]] | None

VALID = "valid"
"""What keys of the history begin with."""


def eval_sets(eval_set: Any, form: str = "(X, y)") -> list[tuple[Any, ...]]:
    """All validation sets, in order.

    Parameters
    ----------
    eval_set : None, a tuple (X, y), or a sequence of such tuples
        A list ``[X, y]`` is taken as the tuple.
    form : str
        What a set looks like, for the error.
    """
    size = form.count(",") + 1
    if eval_set is None:
        return []
    if isinstance(eval_set, tuple | list):
        if all(_is_set(one, size) for one in eval_set):
            return [tuple(one) for one in eval_set]
        if len(eval_set) == size:
            return [tuple(eval_set)]
    found = f"a {type(eval_set).__name__}"
    if isinstance(eval_set, tuple | list):
        found += f" of {len(eval_set)}"
    raise ValueError(
        f"The 'eval_set' parameter must be a tuple {form} or a list of such tuples. Got {found} instead."
    )


def _is_set(found: Any, size: int) -> bool:
    """Whether it is features with their targets: rows of numbers, which may be lists too, begin with a number."""
    if not isinstance(found, tuple | list) or len(found) != size:
        return False
    return hasattr(found[0], "shape") or (isinstance(found, tuple) and isinstance(found[0], list | tuple))


def eval_names(count: int) -> list[str]:
    """What the sets are called in the history: ``valid``, or ``valid_0``, ``valid_1``, …."""
    return [VALID] if count == 1 else [f"{VALID}_{number}" for number in range(count)]


def check_each(sets: Sequence[tuple[Any, ...]], check: Callable[..., Checked]) -> list[Checked]:
    """What ``check`` makes of every set; its error says which."""
    checked = []
    for number, one in enumerate(sets):
        try:
            checked.append(check(*one))
        except ValueError as error:
            which = "eval_set" if len(sets) == 1 else f"eval_set[{number}]"
            raise ValueError(f"{which}: {error}") from error
    return checked
