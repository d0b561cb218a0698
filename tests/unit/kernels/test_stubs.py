"""_kernels.pyi agrees with the compiled module: names, arguments, their order, array types and scalars."""

import ast
import re
from pathlib import Path

import pytest

from sparseleaf import _kernels

STUB = ast.parse((Path(__file__).parents[3] / "src" / "sparseleaf" / "_kernels.pyi").read_text())
ALIASES = {
    node.target.id: ast.unparse(node.value)
    for node in STUB.body
    if isinstance(node, ast.AnnAssign) and node.value is not None
}
CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef)]
WRITTEN = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)} | {
    f"{owner.name}.{node.name}": node
    for owner in CLASSES
    for node in owner.body
    if isinstance(node, ast.FunctionDef)
}


def compiled_callables():
    """Functions and methods of the compiled module, with their docstrings: one line per overload."""
    found = {}
    for name, value in vars(_kernels).items():
        if isinstance(value, type):
            methods = {key: method for key, method in vars(value).items() if callable(method)}
            methods.pop("__new__", None)
            if isinstance(value.__init__, type(object.__init__)):
                methods.pop("__init__", None)  # made by kernels only
            found |= {f"{name}.{key}": method.__doc__ for key, method in methods.items()}
        elif callable(value):
            found[name] = value.__doc__
    return found


COMPILED = compiled_callables()


def split_arguments(text):
    """The parts between commas that stand in no bracket."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def compiled_arguments(name):
    """Names and, over all overloads, types of arguments: dtypes of arrays, or the name of a scalar type."""
    function = name.rpartition(".")[2]
    signatures = [line for line in COMPILED[name].splitlines() if line.startswith(f"{function}(")]
    overloads = []
    for line in signatures:
        arguments = split_arguments(re.fullmatch(rf"{function}\((.*)\) -> .*", line).group(1))
        overloads.append([argument.partition(": ")[::2] for argument in arguments])
    assert overloads
    merged = []
    for versions in zip(*overloads, strict=True):
        names = {argument for argument, _ in versions}
        assert len(names) == 1, f"overloads of {name} call an argument {names}"
        merged.append((names.pop(), frozenset().union(*(kinds(annotation) for _, annotation in versions))))
    return merged


def written_arguments(name):
    arguments = WRITTEN[name].args
    return [(item.arg, kinds(expanded(item.annotation))) for item in (*arguments.args, *arguments.kwonlyargs)]


def expanded(annotation):
    text = ast.unparse(annotation) if annotation is not None else ""
    while (again := re.sub(r"\b_\w+", lambda match: ALIASES.get(match[0], match[0]), text)) != text:
        text = again
    return text


def kinds(annotation):
    """Types of one argument that can be compared; nothing for arrays of any type, functions and classes."""
    dtypes = re.findall(r"(?:dtype=|np\.)(\w+)", annotation)
    return frozenset(dtypes or re.findall(r"^(?:int|float|bool|str)\b", annotation))


def test_every_name_is_in_the_stub_and_the_module():
    assert set(WRITTEN) == set(COMPILED)
    assert {node.name for node in CLASSES} == {
        name for name, value in vars(_kernels).items() if isinstance(value, type)
    }


@pytest.mark.parametrize("node", CLASSES, ids=lambda node: node.name)
def test_attributes_agree(node):
    written = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
    compiled = vars(getattr(_kernels, node.name)).items()
    assert written == {name for name, value in compiled if isinstance(value, property)}


@pytest.mark.parametrize("name", sorted(set(WRITTEN) & set(COMPILED)))
def test_arguments_agree(name):
    written, compiled = written_arguments(name), compiled_arguments(name)
    assert [argument for argument, _ in written] == [argument for argument, _ in compiled]
    for (argument, types), (_, wanted) in zip(written, compiled, strict=True):
        assert not (types and wanted) or types == wanted, argument
