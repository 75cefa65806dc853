"""Joins the dashboard into one page: embed_page.py OUTPUT.h index.html style.css SCRIPT.js ...

OUTPUT.h gets the page as a C array, and the Content-Security-Policy that lets the page's own style
and script run, by their hashes, and nothing else.
"""
import base64
import hashlib
import pathlib
import sys

POLICY = ("default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; img-src data:; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def source(text):
    """How a policy names a text that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def put(page, mark, text, end):
    if page.count(mark) != 1 or end in text:
        sys.exit(f"embed_page.py: the page has {mark} once, and nothing in it ends it with {end}.")
    return page.replace(mark, text)


def array(name, text):
    # As a character where a number would not fit a char that has a sign.
    data = [str(byte) if byte < 128 else f"'\\{byte:o}'" for byte in text.encode("utf-8")]
    rows = [", ".join(data[at:at + 20]) for at in range(0, len(data), 20)]
    return f"static const char {name}[] = {{\n    " + ",\n    ".join(rows) + ", 0\n};\n"


def main():
    output = pathlib.Path(sys.argv[1])
    page, style, *scripts = [pathlib.Path(name).read_text(encoding="utf-8") for name in sys.argv[2:]]
    style, script = "\n" + style, "\n" + "\n".join(scripts)
    page = put(page, "@STYLE@", style, "</style")
    page = put(page, "@SCRIPT@", script, "</script")
    policy = POLICY.format(style=source(style), script=source(script))
    output.write_text(array("weir_dashboard_page", page) + "\n" + array("weir_dashboard_csp", policy))


main()
