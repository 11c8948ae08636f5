import os

from spack.package import *
from spack_repo.builtin.build_systems.makefile import MakefilePackage

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))


class DmftSolve(MakefilePackage):
    """Infinite-width limits of mixture-of-experts training, with error bars, beside finite networks
    that the same program trains."""

    git = f"file://{CHECKOUT}"
    license("GPL-3.0-or-later")
    version("main", branch="main")

    variant("cuda", default=False, description="The backend cuda")
    variant("mpi", default=False, description="Build for mpirun")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("random123", type="build")
    depends_on("openblas")
    depends_on("netlib-lapack+lapacke~external-blas")
    depends_on("gsl@2:")
    depends_on("hdf5@1.10:+hl~mpi")
    depends_on("lua@5.4:+pcfile")
    depends_on("jansson@2.9:")
    depends_on("cuda@12:", when="+cuda")
    depends_on("mpi", when="+mpi")

    depends_on("python@3.9:", type="run")  # of dmft-sweep and dmft-data, and what it imports
    depends_on("py-h5py", type="run")
    depends_on("py-scipy", type="run")

    conflicts("platform=darwin", msg="sweeps call prctl, which only Linux has")

    @property
    def options(self):
        """Words of every call of make."""
        words = [f"PREFIX={self.prefix}",
                 "PKG=openblas lapacke gsl hdf5 lua jansson"]
        words += ["CUDA=1", f"CUDA_HOME={self.spec['cuda'].prefix}"] if "+cuda" in self.spec else []
        return words + (["MPI=1"] if "+mpi" in self.spec else [])

    def build(self, spec, prefix):
        make("all", *self.options)

    def install(self, spec, prefix):
        make("install", *self.options)
