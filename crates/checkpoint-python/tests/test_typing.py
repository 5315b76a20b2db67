"""What type checkers and readers are told is what is there."""

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import checkpoint_store
from checkpoint_store import _native

PACKAGE = Path(checkpoint_store.__file__).parent
STUB = ast.parse((PACKAGE / "_native.pyi").read_text())
#: What needs a package that the tests may do without.
OPTIONAL = ("checkpoint_store.ray",)


def stubbed(body):
    return {node.name: node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))}


def shape(node):
    """The parameters of a function in the stub: names, kinds, and which may be left out."""
    arguments = node.args
    first = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    both = [*arguments.posonlyargs, *arguments.args]
    found = [(one.arg, "positional", place >= first) for place, one in enumerate(both)]
    found += [
        (one.arg, "keyword", default is not None)
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return [one for one in found if one[0] not in ("self", "cls")]


def built(function):
    """The same of a function in the module."""
    found = []
    for one in inspect.signature(function).parameters.values():
        kind = "keyword" if one.kind is inspect.Parameter.KEYWORD_ONLY else "positional"
        found.append((one.name, kind, one.default is not inspect.Parameter.empty))
    return [one for one in found if one[0] not in ("self", "cls")]


CLASSES = {name: node for name, node in stubbed(STUB.body).items() if isinstance(node, ast.ClassDef)}
FUNCTIONS = {name: node for name, node in stubbed(STUB.body).items() if isinstance(node, ast.FunctionDef)}
METHODS = [(name, method) for name, node in CLASSES.items() for method in stubbed(node.body)]


def test_the_stub_names_what_the_module_has():
    public = {name for name in vars(_native) if not name.startswith("_") and name != "__version__"}
    assert public == set(CLASSES) | set(FUNCTIONS)


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_of_a_class_names_what_the_class_has(name):
    there = {one for one in vars(getattr(_native, name)) if not one.startswith("_")}
    assert there == {one for one in stubbed(CLASSES[name].body) if not one.startswith("_")}
    # Those that are of a protocol.
    special = {one for one in stubbed(CLASSES[name].body) if one.startswith("__")} - {"__new__", "__buffer__"}
    assert special <= set(vars(getattr(_native, name)))


@pytest.mark.parametrize(("name", "method"), METHODS)
def test_a_method_of_the_stub_takes_what_the_method_takes(name, method):
    node, own = stubbed(CLASSES[name].body)[method], vars(getattr(_native, name)).get(method)
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        assert inspect.isgetsetdescriptor(own)
    elif method == "__new__":
        assert built(getattr(_native, name)) == shape(node)
    elif not method.startswith("__"):
        assert built(getattr(getattr(_native, name), method)) == shape(node)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_stub_takes_what_the_function_takes(name):
    assert built(getattr(_native, name)) == shape(FUNCTIONS[name])


def modules():
    found = [checkpoint_store]
    for one in pkgutil.walk_packages([str(PACKAGE)], "checkpoint_store."):
        if not one.name.startswith(OPTIONAL):
            found.append(importlib.import_module(one.name))
    return found


def documented():
    """All that is public, and defined here."""
    for module in modules():
        if module is _native or module.__name__.rpartition(".")[2].startswith("_"):
            continue
        yield module.__name__, module
        for name, value in vars(module).items():
            is_ours = getattr(value, "__module__", None) == module.__name__
            if name.startswith("_") or not is_ours or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            yield f"{module.__name__}.{name}", value
            for method, function in vars(value).items() if inspect.isclass(value) else ():
                function = getattr(function, "__func__", getattr(function, "fget", function))
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{module.__name__}.{name}.{method}", function


def test_all_that_is_public_is_documented():
    bare = [name for name, value in documented() if not (value.__doc__ or "").strip()]
    assert bare == []


@pytest.mark.parametrize("name", ["Filesystem", "Writer", "IdSet"])
def test_what_the_native_module_has_for_files_and_ids_is_documented(name):
    of_the_class = {method: vars(getattr(_native, name)).get(method) for method in stubbed(CLASSES[name].body)}
    bare = [method for method, own in of_the_class.items() if not method.startswith("__") and not own.__doc__]
    assert getattr(_native, name).__doc__ and bare == []


def test_all_that_is_public_is_annotated():
    loose = []
    for name, value in documented():
        if inspect.isfunction(value):
            told = set(value.__annotations__)
            taken = set(inspect.signature(value).parameters) - {"self", "cls"}
            if not taken | {"return"} <= told:
                loose.append(name)
    assert loose == []


def test_it_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
