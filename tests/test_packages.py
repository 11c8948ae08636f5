"""install/conda and install/spack say what the Makefile says: version and libraries; and what the
Python package imports at its start."""
import os
import re
import subprocess
import sys

import dmft
import pytest
from texts import text_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECIPE = ("install", "conda", "recipe.yaml")
SPACK = ("install", "spack", "packages", "dmft_solve", "package.py")


def libraries():
    """By the names that pkg-config has of them where they are not Debian's."""
    return re.search(r"^PKG := (openblas .* lua .*)$", text_of(".ci", "packages.mk"),
                     re.M)[1].split()


def test_the_recipe_of_conda():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load(text_of(*RECIPE))
    version = re.search(r"^VERSION := ([\d.]+)", text_of("Makefile"), re.M)[1]
    assert recipe["context"]["version"] == version
    assert recipe["context"]["libraries"].split() == libraries()
    wanted = {word.split()[0].removeprefix("lib") for word in recipe["requirements"]["host"]}
    assert {name.removeprefix("lib") for name in libraries()} <= wanted
    python = text_of("python", "pyproject.toml")
    needs = re.search(r"^dependencies = \[(.*)\]", python, re.M)[1].replace('"', "").split(", ")
    assert set(needs) == {word.split()[0] for word in recipe["requirements"]["run"]} - {"python"}
    rattler = pytest.importorskip("rattler_build")  # pip install py-rattler-build
    variants = rattler.VariantConfig.from_yaml("c_stdlib: [sysroot]\n")
    rendered = rattler.Stage0Recipe.from_file(os.path.join(ROOT, *RECIPE)).render(variants)
    assert len(rendered) >= 1


def test_the_package_of_spack_needs_what_the_makefile_needs():
    package = text_of(*SPACK)
    compile(package, "package.py", "exec")
    assert " ".join(libraries()) in package
    needs = re.findall(r'depends_on\("([\w-]+)', package)
    other = {"lapacke": "netlib-lapack"}
    assert {other.get(name, name) for name in libraries()} <= set(needs)


def test_the_package_starts_small():
    """Names are looked up when they are used, and are functions where modules have their names."""
    code = "import dmft, sys; assert not {'numpy', 'xarray'} & set(sys.modules); " \
        "import dmft.study.command, dmft.recipe_command, dmft.theory.command, dmft.drawing; " \
        "assert not {'xarray', 'pandas', 'scipy'} & set(sys.modules); " \
        "import dmft.study.work, dmft.study.summary, dmft.study.tables; " \
        "assert not {'xarray', 'pandas'} & set(sys.modules); " \
        "import dmft.recipe, dmft.transfer; assert callable(dmft.recipe) and " \
        "callable(dmft.transfer) and set(dmft.__all__) <= set(dir(dmft)); " \
        "from dmft import *; assert solve is dmft.solve"
    subprocess.run([sys.executable, "-c", code], check=True,
                   env=os.environ | {"PYTHONPATH": os.path.join(ROOT, "python")})
    with pytest.raises(AttributeError, match="has no attribute 'solver'"):
        dmft.solver
