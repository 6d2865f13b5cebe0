"""The grammar, for lark's LALR parser. Expressions are those of CEL without construction of messages.

A definition needs no separators: a value ends where the next name begins, because no CEL expression can be followed
by one. `message_type` and `map_to` are words of their own only where a member of a block may start.
"""

from __future__ import annotations

GRAMMAR = r"""
start: block*

block: NAME [label] "{" member* "}"
label: any_name -> word_label
     | STRING -> text_label

?member: property
       | block
       | MESSAGE_TYPE "{" type_field* "}" -> type_block
       | MAP_TO ":" any_name destination [options] ["{" mapped* "}"] -> mapping

property: NAME ":" expr
mapped: any_name ":" expr -> property
options: "(" property* ")"
destination: any_name ("." any_name)* -> dotted
           | STRING -> text_destination

type_field: any_name [OPTIONAL] ":" type
type: NAME -> plain_type
    | NAME "<" type ("," type)* ">" -> generic_type
    | NAME "(" STRING ("," STRING)* ")" -> enum_type
    | "{" type_field* "}" -> record_type

?expr: either
     | either "?" either ":" expr -> ternary
?either: both ("||" both)*
?both: relation ("&&" relation)*
?relation: sum
         | relation RELATION sum -> binary
         | relation "<" sum -> less
         | relation ">" sum -> greater
         | relation IN sum -> binary
?sum: product
    | sum (PLUS | MINUS) product -> binary
?product: prefixed
        | product PRODUCT prefixed -> binary
?prefixed: postfixed
         | (NOT | MINUS) prefixed -> unary
?postfixed: primary
          | postfixed "." any_name -> select
          | postfixed "." any_name "(" [arguments] ")" -> method
          | postfixed "[" expr "]" -> index
?primary: any_name -> name
        | any_name "(" [arguments] ")" -> call
        | "(" expr ")"
        | "[" [arguments] "]" -> list_expr
        | "{" [entry ("," entry)*] "}" -> map_expr
        | STRING -> string
        | BYTES -> bytes
        | INT -> int
        | FLOAT -> float
        | TRUE -> true
        | FALSE -> false
        | NULL -> null
arguments: expr ("," expr)*
entry: expr ":" expr

any_name: NAME | MESSAGE_TYPE | MAP_TO

MESSAGE_TYPE: "message_type"
MAP_TO: "map_to"
TRUE: "true"
FALSE: "false"
NULL: "null"
IN: "in"
OPTIONAL: "?"
RELATION: "==" | "!=" | "<=" | ">="
PLUS: "+"
MINUS: "-"
PRODUCT: "*" | "/" | "%"
NOT: "!"
NAME: /[A-Za-z_][A-Za-z0-9_]*/
FLOAT: /([0-9]+\.[0-9]+([eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/
INT: /(0[xX][0-9A-Fa-f]+|[0-9]+)[uU]?/
STRING: /"([^"\\\r\n]|\\[^\r\n])*"|'([^'\\\r\n]|\\[^\r\n])*'|[rR]"[^"\r\n]*"|[rR]'[^'\r\n]*'/
BYTES: /[bB]("([^"\\\r\n]|\\[^\r\n])*"|'([^'\\\r\n]|\\[^\r\n])*'|[rR]"[^"\r\n]*"|[rR]'[^'\r\n]*')/
COMMENT.2: /\/\/[^\r\n]*/
SPACE: /[ \t\r\n]+/
%ignore COMMENT
%ignore SPACE
"""

#: What a person would call each token.
TOKEN_NAMES = {
    "NAME": "a name", "MESSAGE_TYPE": "a name", "MAP_TO": "a name", "STRING": "a string", "BYTES": "a value",
    "INT": "a number", "FLOAT": "a number", "TRUE": "a value", "FALSE": "a value", "NULL": "a value",
    "LBRACE": "`{`", "RBRACE": "`}`", "COLON": "`:`", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`",
    "COMMA": "`,`", "DOT": "`.`", "LESSTHAN": "`<`", "MORETHAN": "`>`", "OPTIONAL": "`?`",
    "$END": "the end of the file",
}  # fmt: skip
