"""Expressions as text: one line, with the spaces of the house style, from the tokens that the author wrote."""

from __future__ import annotations

from lark import Token

_TIGHT_AFTER = {"LPAR", "LSQB", "DOT", "NOT", "LBRACE"}
_TIGHT_BEFORE = {"RPAR", "RSQB", "DOT", "COMMA", "RBRACE"}
_OPERAND_ENDS = {"RPAR", "RSQB", "RBRACE", "STRING", "BYTES", "INT", "FLOAT", "TRUE", "FALSE", "NULL"}
_NAMES = {"NAME", "MESSAGE_TYPE", "MAP_TO"}


def expression_text(tokens: list[Token]) -> str:
    """An expression on one line, with the spaces of the house style."""
    pieces: list[str] = []
    depth = 0  # of brackets in which a colon belongs to a map
    maps: list[int] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else None
        if before is not None and not _tight(tokens, index, in_map=bool(maps) and maps[-1] == depth):
            pieces.append(" ")
        pieces.append(str(token))
        if token.type in ("LPAR", "LSQB", "LBRACE"):
            depth += 1
            if token.type == "LBRACE":
                maps.append(depth)
        elif token.type in ("RPAR", "RSQB", "RBRACE"):
            if token.type == "RBRACE" and maps:
                maps.pop()
            depth -= 1
    return "".join(pieces)


def _tight(tokens: list[Token], index: int, *, in_map: bool) -> bool:
    """Whether no space stands before a token."""
    token, before = tokens[index], tokens[index - 1]
    if token.type in _TIGHT_BEFORE or before.type in _TIGHT_AFTER:
        return True
    if token.type in ("LPAR", "LSQB"):
        return before.type in _NAMES or (token.type == "LSQB" and before.type in _OPERAND_ENDS)
    if before.type == "MINUS":
        return index == 1 or tokens[index - 2].type not in _OPERAND_ENDS | _NAMES
    return token.type == "COLON" and in_map and not _closes_ternary(tokens, index)


def _closes_ternary(tokens: list[Token], index: int) -> bool:
    """Whether a colon answers a `?` of the same bracket rather than a key of a map."""
    depth = pending = 0
    for token in reversed(tokens[:index]):
        if token.type in ("RPAR", "RSQB", "RBRACE"):
            depth += 1
        elif token.type in ("LPAR", "LSQB", "LBRACE"):
            depth -= 1
            if depth < 0:
                return False
        elif depth == 0 and token.type == "COLON":
            pending += 1
        elif depth == 0 and token.type == "OPTIONAL":
            if pending == 0:
                return True
            pending -= 1
        elif depth == 0 and token.type == "COMMA":
            return False
    return False
