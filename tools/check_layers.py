#!/usr/bin/env python3
"""Fails when a folder of src/ includes a folder it may not. The table is ARCHITECTURE.md's, as code.

Usage: tools/check_layers.py [ROOT]     ROOT holds src/ (default: the repository)
"""
import pathlib
import re
import sys

PURE = ["base", "stats", "wire", "prompt", "policy", "signals", "decision", "session", "sim"]
ALLOWED = {
    "base": [],
    "stats": ["base"],
    "wire": ["base"],
    "prompt": ["base", "wire"],
    "policy": ["base"],
    "signals": ["base", "stats", "wire", "policy"],
    "decision": ["base", "stats", "policy", "prompt", "signals"],
    "session": ["base", "wire", "prompt", "policy", "decision"],
    "sim": ["base", "stats"],
    "engine": ["base", "prompt", "policy"],
    "net": ["base", "wire"],
    "host": ["base", "signals", "wire", "net"],
    "observe": ["base", "wire", "net", "policy", "signals", "decision", "session"],
    "serving": ["base", "wire", "prompt", "policy", "sim", "engine", "net", "host", "observe"],
}
SHELL = ["base", "stats", "wire", "prompt", "policy", "signals", "decision", "session", "net", "host", "observe"]
ALLOWED["gateway"] = SHELL
ALLOWED["admin"] = SHELL + ["gateway"]
ALLOWED["main"] = list(ALLOWED)
ALLOWED["lab"] = PURE

# What would make a pure folder impure: clocks, sockets, threads, the environment.
IMPURE = re.compile(
    r"#include <(thread|mutex|condition_variable|atomic|boost/asio[^>]*|sys/socket\.h|unistd\.h|iostream|fstream)>"
    r"|\b(getenv|steady_clock::now|system_clock::now|random_device)\b"
)
INCLUDE = re.compile(r'^\s*#\s*include "([a-z_]+)/', re.M)


def findings(root):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        folder = path.relative_to(root / "src").parts[0]
        text = path.read_text()
        if folder not in ALLOWED:
            yield f"{path}: folder {folder} is not in the table of tools/check_layers.py"
            continue
        for used in INCLUDE.findall(text):
            if used != folder and used not in ALLOWED[folder]:
                yield f"{path}: {folder} may not include {used}"
        if folder in PURE and not path.name.endswith("_test.cc"):
            for match in IMPURE.finditer(text):
                yield f"{path}: {folder} is pure and may not use {match.group(0)}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    bad = list(findings(root))
    print("\n".join(bad) or "layers ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
