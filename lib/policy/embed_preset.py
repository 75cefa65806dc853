"""Writes JSON files as C arrays: embed_preset.py OUTPUT.h preset_NAME.json ...

Each becomes `static const char weir_preset_NAME[]`, without its blanks.
"""
import json
import pathlib
import sys


def array(path):
    data = json.dumps(json.loads(path.read_text(encoding="utf-8")), separators=(",", ":")).encode("ascii")
    rows = [", ".join(map(str, data[at:at + 20])) for at in range(0, len(data), 20)]
    return f"static const char weir_{path.stem}[] = {{\n    " + ",\n    ".join(rows) + ", 0\n};\n"


output, files = sys.argv[1], map(pathlib.Path, sys.argv[2:])
pathlib.Path(output).write_text("\n".join(map(array, files)))
