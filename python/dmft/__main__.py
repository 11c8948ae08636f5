"""python -m dmft COMMAND ...: dmft-COMMAND where the package is not installed."""
import importlib
import sys

# Of each command the module that has its main(words).
COMMANDS = {"diff": "dmft.diff_command", "draw": "dmft.drawing", "recipe": "dmft.recipe_command",
            "equations": "dmft.theory.command", "examples": "dmft.examples",
            "data": "dmft.data_command", "torch": "dmft.torch_command"}

if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else ""
    if given not in COMMANDS:
        print(f"usage: python -m dmft {'|'.join(COMMANDS)} ...", file=sys.stderr)
        sys.exit(2)
    sys.exit(importlib.import_module(COMMANDS[given]).main(sys.argv[2:]))
