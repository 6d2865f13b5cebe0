"""The functions of CEL that definitions may call: those that the engine has and that cannot run away."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.definitions.message_type import (
    BOOL,
    BYTES,
    DURATION,
    FLOAT,
    INT,
    STRING,
    TIME,
    EnumType,
    ListType,
    ScalarType,
    Type,
)


@dataclass(frozen=True, slots=True)
class Signature:
    """Kinds that the receiver and each argument may have, and the type of the result."""

    receiver: tuple[str, ...] | None
    arguments: tuple[tuple[str, ...], ...]
    result: Type


_TEXT = ("string",)
_SIZED = ("string", "bytes", "list", "map")
_STRING_TEST = (Signature(_TEXT, (_TEXT,), BOOL),)
_OF_TIME = (Signature(("time",), (), INT),)
_OF_CLOCK = (Signature(("time", "duration"), (), INT),)

FUNCTIONS: dict[str, tuple[Signature, ...]] = {
    "size": (Signature(None, (_SIZED,), INT), Signature(_SIZED, (), INT)),
    "startsWith": _STRING_TEST,
    "endsWith": _STRING_TEST,
    "contains": _STRING_TEST,
    "matches": _STRING_TEST,
    "string": (Signature(None, (("string", "int", "float", "bytes", "time", "duration"),), STRING),),
    "int": (Signature(None, (("int", "float", "string"),), INT),),
    "double": (Signature(None, (("int", "float", "string"),), FLOAT),),
    "bytes": (Signature(None, (_TEXT,), BYTES),),
    "timestamp": (Signature(None, (_TEXT,), TIME),),
    "duration": (Signature(None, (_TEXT,), DURATION),),
    "getFullYear": _OF_TIME,
    "getMonth": _OF_TIME,
    "getDate": _OF_TIME,
    "getDayOfMonth": _OF_TIME,
    "getDayOfWeek": _OF_TIME,
    "getDayOfYear": _OF_TIME,
    "getHours": _OF_CLOCK,
    "getMinutes": _OF_CLOCK,
    "getSeconds": _OF_CLOCK,
    "getMilliseconds": _OF_CLOCK,
}

#: Macros over a list or the keys of a map: `range.macro(variable, body)`.
MACROS = ("all", "exists", "exists_one", "filter", "map")
CALLABLE = (*FUNCTIONS, *MACROS, "has")

#: Words that CEL keeps for itself; a variable cannot have such a name.
RESERVED = frozenset(
    (
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
        "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
    )
)  # fmt: skip


def kind_of(type_: Type) -> str:
    """The kind of value that a type holds, as signatures and messages to people name it."""
    match type_:
        case ScalarType():
            return type_.name
        case EnumType():
            return "string"
        case ListType():
            return "list"
    return "map"


def fits(signature: Signature, receiver: Type | None, arguments: tuple[Type, ...]) -> bool:
    """Whether a function may be called so; a dynamic operand fits everything."""
    if (receiver is None) != (signature.receiver is None) or len(arguments) != len(signature.arguments):
        return False
    wanted = signature.arguments if signature.receiver is None else (signature.receiver, *signature.arguments)
    given = arguments if receiver is None else (receiver, *arguments)
    return all(kind_of(have) in (*want, "json") for have, want in zip(given, wanted, strict=True))


def usage(name: str) -> str:
    """How a function is called, as a person would write it."""
    shown = []
    for signature in FUNCTIONS[name]:
        arguments = ", ".join("/".join(kinds) for kinds in signature.arguments)
        receiver = "" if signature.receiver is None else f"{'/'.join(signature.receiver)}."
        shown.append(f"{receiver}{name}({arguments})")
    return " or ".join(shown)
