#!/bin/sh
# build/NAME_VERSION_ARCH.deb: what `make install PREFIX=/usr` installs, where Debian has it.
# usage: deb.sh BUILD VERSION NAME, where NAME is dmft-solve or, of a build for MPI, dmft-solve-mpi
set -eu
. install/needs.sh
needs 'make deb' 'apt-get install dpkg-dev' dpkg dpkg-deb dpkg-shlibdeps du gzip make sed strip
arch=$(dpkg --print-architecture)
work=$1/deb
root=$work/root
rm -rf "$work"
mkdir -p "$root/DEBIAN" "$work/debian"
make --no-print-directory -s install DESTDIR="$root" PREFIX=/usr
mkdir -p "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/zsh/site-functions/_dmft-solve" "$root/usr/share/zsh/vendor-completions/"
rmdir "$root/usr/share/zsh/site-functions"
sed -i '1s|.*|#!/usr/bin/python3|' "$root/usr/bin/dmft-sweep" "$root/usr/bin/dmft-data"
linked= # the programs and, if it is there, libdmft
for file in "$root"/usr/bin/dmft-solve "$root"/usr/bin/dmft-compare "$root"/usr/lib/libdmft.so.?.*; do
    [ ! -f "$file" ] || linked="$linked ${file#"$work/"}"
done
(cd "$work" && strip --strip-unneeded $linked)
gzip -9n "$root"/usr/share/man/man1/*.1 "$root/usr/share/doc/dmft-solve/CHANGELOG.md"
{
    echo 'dmft-solve: GPL-3.0-or-later; the text is in /usr/share/common-licenses/GPL-3'
} >"$root/usr/share/doc/dmft-solve/copyright"

# The libraries that the programs and libdmft are linked with.
printf 'Source: dmft-solve\n\nPackage: %s\nArchitecture: any\n' "$3" >"$work/debian/control"
(cd "$work" && dpkg-shlibdeps -O $linked >substvars)
depends=$(sed -n 's/^shlibs:Depends=//p' "$work/substvars")
case $depends in
*libc6*) ;;
*)
    echo "make deb: dpkg-shlibdeps says the programs depend on '$depends', without the C library; no package is made" >&2
    exit 1
    ;;
esac
size=$(du -ks "$root/usr")
instead= more=
if [ "$3" != dmft-solve ]; then
    more=', mpi-default-bin'
    instead='Provides: dmft-solve
Conflicts: dmft-solve
Replaces: dmft-solve
'
fi
cat >"$root/DEBIAN/control" <<END
Package: $3
Version: $2
Architecture: $arch
Section: science
Priority: optional
Maintainer: dmft-solve maintainers <dmft-solve@localhost>
Installed-Size: ${size%%[!0-9]*}
Depends: $depends, python3, python3-h5py, python3-scipy
${instead}Recommends: dataset-fashion-mnist$more
Description: infinite-width limits of mixture-of-experts training
 The training of infinitely wide networks, with error bars, beside finite networks trained by the
 same program; sweeps and comparisons; a C library.
END
printf '#!/bin/sh\nset -e\nldconfig\n' >"$root/DEBIAN/postinst"
cp "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
dpkg-deb --root-owner-group --build "$root" "build/$3_$2_$arch.deb"
