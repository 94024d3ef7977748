#!/usr/bin/env python3
"""check_layers.py must fail when a forbidden include or a clock is added, and pass otherwise."""
import pathlib
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).with_name("check_layers.py")
CASES = [  # (file, its text, does the check pass)
    ("src/wire/good.h", '#include "base/result.h"\n', True),
    ("src/wire/own.h", '#include "wire/http1.h"\n', True),
    ("src/wire/bad.h", '#include "session/session.h"\n', False),
    ("src/decision/spaced.h", '  #  include "net/clock.h"\n', False),
    ("src/decision/clock.cc", "auto t = std::chrono::steady_clock::now();\n", False),
    ("src/decision/clock_test.cc", "auto t = std::chrono::steady_clock::now();\n", True),
    ("src/sim/thread.cc", "#include <thread>\n", False),
    ("src/net/thread.cc", "#include <thread>\n", True),
    ("src/utils/new.h", "", False),
]

failed = []
for name, text, passes in CASES:
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        code = subprocess.run([sys.executable, TOOL, root], capture_output=True).returncode
        if (code == 0) != passes:
            failed.append(name)
print("\n".join(f"wrong verdict on {name}" for name in failed) or "layer check ok")
sys.exit(bool(failed))
