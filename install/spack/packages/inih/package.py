from spack.package import *
from spack_repo.builtin.build_systems.meson import MesonPackage


class Inih(MesonPackage):
    """A small parser of ini files in C."""

    homepage = "https://github.com/benhoyt/inih"
    git = "https://github.com/benhoyt/inih.git"
    license("BSD-3-Clause")
    version("58", tag="r58")

    depends_on("c", type="build")

    def meson_args(self):
        return ["-Ddistro_install=true", "-Dwith_INIReader=false"]
