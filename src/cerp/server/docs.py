"""/docs: the interface as a page made from /openapi.json, with no script and nothing from afar."""

from __future__ import annotations

from html import escape
from typing import Any


def docs_page(openapi: dict[str, Any]) -> str:
    """HTML with every path, its parameters, its body and an example to paste into a shell."""
    parts = [_operation(path, method, found, openapi)
             for path, methods in openapi["paths"].items()
             for method, found in methods.items()]  # fmt: skip
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="stylesheet" href="style.css"></head><body><main>'
        f'<section class="card"><h1>{escape(title)}</h1>'
        f"<p>{escape(openapi['info'].get('description', ''))} All of it, for programs: "
        '<a href="openapi.json">openapi.json</a>.</p></section>'
        f"{''.join(parts)}</main></body></html>"
    )


def _operation(path: str, method: str, found: dict[str, Any], openapi: dict[str, Any]) -> str:
    rows = [
        (one["name"], one.get("schema", {}), one.get("required", False))
        for one in found.get("parameters", ())
    ]
    content = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = _resolved(content.get("schema", {}), openapi)
    needed = set(schema.get("required", ()))
    rows += [(name, one, name in needed) for name, one in schema.get("properties", {}).items()]
    table = "".join(
        f"<tr><th scope=row><code>{escape(name)}</code></th><td>{escape(_kind(one))}</td>"
        f"<td>{'required' if is_needed else escape(_default(one))}</td></tr>"
        for name, one, is_needed in rows
    )
    told = escape(found.get("description", found.get("summary", "")))
    return (
        f'<section class="card"><h2><code>{method.upper()} {escape(path)}</code></h2>'
        f"<p>{told}</p>{f'<table><tbody>{table}</tbody></table>' if table else ''}</section>"
    )


def _resolved(schema: dict[str, Any], openapi: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = openapi.get("components", {}).get("schemas", {}).get(name, schema)
    return found


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    words = [str(schema.get("type", "any"))]
    limits = {"minimum": "from", "maximum": "to", "maxItems": "at most", "maxLength": "at most"}
    words += [f"{word} {int(schema[name]):,}" for name, word in limits.items() if name in schema]
    return " ".join(words)


def _default(schema: dict[str, Any]) -> str:
    return "" if schema.get("default") is None else f"{schema['default']}"
