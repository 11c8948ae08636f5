"""Equations on pages of Markdown, between comments that name their ini.

    <!-- dmft-equations data/regime2.ini -->
    ...
    <!-- end of dmft-equations -->

python -m dmft.theory.insert PAGE.md ... writes what stands between them anew; inis are relative to
the current folder.
"""
from __future__ import annotations

import os
import re
import sys

from dmft.theory import equations

BEGIN = r"<!-- dmft-equations (\S+) -->\n"
END = "<!-- end of dmft-equations -->"


def renewed(text: str, folder: str = ".") -> str:
    """The text of a page with its equations made anew."""
    def make(found) -> str:
        made = equations(os.path.join(folder, found.group(1))).markdown()
        return f"<!-- dmft-equations {found.group(1)} -->\n\n{made}\n{END}"
    return re.sub(BEGIN + ".*?" + re.escape(END), make, text, flags=re.DOTALL)


def main() -> int:
    """The command."""
    for page in sys.argv[1:]:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open(page, "w", encoding="utf-8") as file:
            file.write(renewed(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
