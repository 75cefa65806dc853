"""Writes pieces of Lua as C arrays: embed_script.py OUTPUT.h FILE.lua ...

Each line "-- section: NAME" in a file redis_WHAT.lua begins an array weir_lua_WHAT_NAME. Comments,
blank lines and indentation stay behind: Redis keeps scripts for good.
"""
import pathlib
import sys


def sections_of(path):
    name, sections = None, {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("-- section: "):
            name = text.removeprefix("-- section: ")
            sections[name] = ""
        elif text and not text.startswith("--"):
            sections[name] += text.split(" -- ")[0].rstrip() + "\n"
    return sections


def array(name, text):
    data = text.encode("ascii")
    rows = [", ".join(map(str, data[at:at + 20])) for at in range(0, len(data), 20)]
    return f"static const char {name}[] = {{\n    " + ",\n    ".join(rows) + ", 0\n};\n"


def main():
    output, files = sys.argv[1], map(pathlib.Path, sys.argv[2:])
    arrays = [array(f"weir_lua_{path.stem.removeprefix('redis_')}_{name}", text)
              for path in files for name, text in sections_of(path).items()]
    pathlib.Path(output).write_text("\n".join(arrays))


main()
