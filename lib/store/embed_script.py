"""Writes a Lua script as a C array: embed_script.py NAME CLOCK.lua CHECK.lua OUTPUT.h

A line "-- include: FILE" becomes that file, found beside CHECK.lua; "redis_clock.lua" becomes
CLOCK.lua. Comments, blank lines and indentation stay behind: Redis keeps the script for good.
"""
import pathlib
import sys


def lines_of(path, clock):
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("-- include: "):
            wanted = text.removeprefix("-- include: ")
            yield from lines_of(clock if wanted == "redis_clock.lua" else path.parent / wanted, clock)
        elif text and not text.startswith("--"):
            yield text.split(" -- ")[0]


def main():
    name, clock, check, output = sys.argv[1:]
    lines = lines_of(pathlib.Path(check), pathlib.Path(clock))
    script = "".join(line + "\n" for line in lines).encode("ascii")
    rows = [", ".join(map(str, script[at:at + 20])) for at in range(0, len(script), 20)]
    text = ",\n    ".join(rows)
    pathlib.Path(output).write_text(f"static const char {name}[] = {{\n    {text}, 0\n}};\n")


main()
