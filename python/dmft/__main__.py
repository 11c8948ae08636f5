"""python -m dmft COMMAND ..., where the package is not installed; or one of its commands, by the
name dmft-COMMAND that it is called by."""
import importlib
import os
import sys

from dmft.command import finish

# Of each command the module that has its main(words).
COMMANDS = {"diff": "dmft.diff_command", "draw": "dmft.drawing", "recipe": "dmft.recipe_command",
            "equations": "dmft.theory.command", "examples": "dmft.examples",
            "data": "dmft.data_command", "torch": "dmft.torch_command", "plot": "dmft.plot.command",
            "sweep": "dmft.study.command"}


def main() -> int:
    """The command; returns its exit code. One sentence where what it needs is not installed."""
    name, *words = os.path.basename(sys.argv[0]).removeprefix("dmft-"), *sys.argv[1:]
    if name not in COMMANDS:
        name, *words = words or [""]
    if name not in COMMANDS:
        print(f"usage: python -m dmft {'|'.join(COMMANDS)} ...", file=sys.stderr)
        return 2

    def work() -> int:
        try:
            command = importlib.import_module(COMMANDS[name])
        except ImportError as error:
            print(f"dmft-{name}: {error}", file=sys.stderr)
            return 1
        return command.main(words)
    return finish(f"dmft-{name}", work)


if __name__ == "__main__":
    sys.exit(main())
