#!/bin/sh
# What `make install` puts into a new root works there: programs, library with pkg-config file and an
# example, completion; and the library exports what it says. Run by tests/run.sh.
: "${BUILD:?}"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
here=$PWD
test_of() { # NAME COMMAND...
    name=$1
    shift
    (set -e; "$@") >"$root/log" 2>&1 # not in `if`, where -e is ignored
    if [ $? -eq 0 ]; then
        echo "[       OK ] $name"
    else
        cat "$root/log"
        echo "[  FAILED  ] $name"
        bad=1
    fi
}
bad=0

into_root() {
    "${PYTHON:-python3}" -m py_compile python/dmft/errors.py # what Python keeps of it stays here
    make --no-print-directory -s install DESTDIR="$root" PREFIX=/opt/dmft
    ! find "$root" -name '*.pyc' | grep .
}
programs() {
    cd "$root"
    for p in dmft-solve dmft-sweep dmft-compare; do
        opt/dmft/bin/$p --version | grep -q "^$p "
        test -s opt/dmft/share/man/man1/$p.1
    done
    for folder in data examples; do # of C, of Lua
        opt/dmft/bin/dmft-solve --quiet --force opt/dmft/share/doc/dmft-solve/$folder/dense.ini --training.steps=1 \
            --reference.widths=
    done
    test -s dense.h5
    test -s opt/dmft/share/doc/dmft-solve/docs/theory/regime2.md
    test -s opt/dmft/share/doc/dmft-solve/studies/lr_transfer.ini
}
library() {
    cd "$root"
    export PKG_CONFIG_PATH="$root/opt/dmft/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
    export LD_LIBRARY_PATH="$root/opt/dmft/lib"
    ${CC:-cc} -Wall -Wextra -Werror -fopenmp opt/dmft/share/doc/dmft-solve/examples/own_network.c \
        $(pkg-config --cflags --libs dmft) -o own_network
    ./own_network >table
    cat table
    # the loss falls, and networks follow the limit: 5 errors of both and the 1/N of the width
    awk 'NR == 2 {first = $2}
         NR > 1 {d = $2 - $5; s = 5 * sqrt($4 * $4 + $7 * $7) + 5 / 128; n++; if (d * d > s * s) bad = 1}
         END {exit bad || n != 10 || !($2 < 0.5 * first)}' table
}
from_c_plus_plus() {
    cd "$root"
    printf '#include <dmft.h>\nint main() { return dmft_version() == nullptr; }\n' >x.cc
    g++ x.cc -I"$root/opt/dmft/include" -L"$root/opt/dmft/lib" -ldmft -o x
    LD_LIBRARY_PATH="$root/opt/dmft/lib" ./x
}
odd_prefix() { # blanks, quotes and $ in PREFIX
    prefix="$root/it's \$HOME & |co\\"
    make --no-print-directory -s install PREFIX="$prefix"
    "$prefix/bin/dmft-solve" --version | grep -q '^dmft-solve '
    test "$(ls "$prefix")" = "$(printf 'bin\ninclude\nlib\nshare')"
    make --no-print-directory -s uninstall PREFIX="$prefix"
    test -z "$(find "$prefix" -type f -o -type l)"
}
odd_prefix_of_a_library() { # pkg-config escapes blanks, but no $
    prefix="$root/it is odd & |co"
    make --no-print-directory -s install PREFIX="$prefix"
    printf '#include <dmft.h>\nint main(void) { return !dmft_version(); }\n' >"$root/odd.c"
    flags=$(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs dmft)
    eval "${CC:-cc} \"\$root/odd.c\" $flags -o \"\$root/odd\""
    LD_LIBRARY_PATH="$prefix/lib" "$root/odd"
}
exports() {
    nm -D --defined-only "$root/opt/dmft/lib/libdmft.so" | awk '{print $NF}' >"$root/names"
    grep -q '^dmft_run$' "$root/names"
    grep -q '^program_map$' "$root/names"
    ! grep -vE '^(dmft|program|gate|router|balance|block)_|^network_whole$' "$root/names"
}
bash_says() { # LINE [SEPARATOR]: what completes it, in one line; each line of the input, if it is -
    bash -c '
        . "$1"
        says() {
            COMP_LINE=$1 COMP_POINT=${#1}
            read -ra COMP_WORDS <<<"$1"
            [[ $1 != *" " ]] || COMP_WORDS+=("")
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _dmft 2>/dev/null
            IFS=$2 eval "echo \"\${COMPREPLY[*]}\""
        }
        [ "$2" = - ] || says "$2" "${3:- }"
        while [ "$2" = - ] && IFS= read -r line; do says "$line" " "; done' - \
        "$root/opt/dmft/share/bash-completion/completions/dmft-solve" "$1" "${2:- }"
}
completion() {
    test "$(bash_says 'dmft-solve --network.gat')" = '--network.gate= --network.gated_experts='
    test "$(bash_says 'dmft-solve --network.gate=s')" = 'sigmoid softmax'
    test "$(bash_says 'dmft-solve --pro')" = '--profile --program --programs'
    test "$(bash_says 'dmft-sweep --pro')" = ''
    test "$(bash_says 'dmft-sweep --jo')" = --jobs
    test "$(bash_says 'dmft-solve --help regime')" = 'regime1 regime2 regime3'
    test "$(bash_says 'dmft-solve --cont')" = --continue
    test "$(bash_says 'dmft-compare --cont')" = --continue
    test "$(bash_says 'dmft-sweep --cont')" = ''
    cd "$root"
    touch a.ini a.txt 'my run.ini'
    test "$(bash_says 'dmft-solve m' '|')" = 'my run.ini'
    test "$(bash_says 'dmft-sweep --help regime')" = ''
    test "$(bash_says 'dmft-solve a')" = a.ini
    # every key of --help is there
    "$here/$BUILD/dmft-solve" --help | sed -nE 's/^  ([a-z]+\.[a-z0-9_]+) .*/dmft-solve --\1/p' >keys
    bash_says - <keys >said
    test "$(wc -l <said)" -gt 100
    paste -d '|' keys said | awk -F '|' '{sub(/^dmft-solve /, "", $1)} !index($2, $1 "=") {bad = 1} END {exit bad}'
    ! command -v zsh >/dev/null || zsh -n opt/dmft/share/zsh/site-functions/_dmft-solve
}
refuses() { # TOOL COMMAND...: without the tool it ends at once, and names it
    tool=$1
    shift
    rm -f "$root/path/$tool"
    code=0
    PATH="$root/path" "$@" >"$root/said" 2>&1 || code=$?
    ln -s "$(command -v "$tool")" "$root/path/$tool"
    if [ $code -eq 0 ]; then
        echo "$*: ends with 0 without $tool"
        return 1
    fi
    grep -q "needs.* $tool[ ,]" "$root/said" || { cat "$root/said" && return 1; }
}
missing_tools() { # the left side of a pipe is none that `set -e` sees
    shell=$(command -v sh)
    mkdir "$root/path"
    for folder in $(echo "$PATH" | tr : ' '); do
        ln -sf "$folder"/* "$root/path/" 2>/dev/null || true # "*" of an empty folder
    done
    for script in deb completion site wheel; do
        tools=$(sed -n "s/^needs '[^']*' '[^']*' //p" install/$script.sh)
        test -n "$tools"
        for tool in $tools; do
            case $script in
            deb) refuses "$tool" "$shell" install/deb.sh "$BUILD" 0 dmft-test ;;
            completion) refuses "$tool" "$shell" install/completion.sh bash "$BUILD/dmft-solve" ;;
            wheel) refuses "$tool" "$shell" install/wheel.sh "$BUILD" ;;
            site) ! "$shell" install/site.sh --needs 2>/dev/null || refuses "$tool" "$shell" install/site.sh "$BUILD" ;;
            esac
        done
    done
    ! sh install/completion.sh bash true >/dev/null
}
package_without_libraries() { # dpkg-shlibdeps finds none: no package is better than one that cannot start
    mkdir "$root/stub"
    printf '#!/bin/sh\n' >"$root/stub/dpkg-shlibdeps"
    chmod +x "$root/stub/dpkg-shlibdeps"
    if PATH="$root/stub:$PATH" sh install/deb.sh "$BUILD" 0 dmft-test >"$root/said" 2>&1; then
        dpkg-deb -f build/dmft-test_0_*.deb
        rm -f build/dmft-test_0_*.deb
        return 1
    fi
    grep -q 'without the C library' "$root/said"
    test -z "$(ls build/dmft-test_0_*.deb 2>/dev/null)"
}
test_of install into_root
test_of installed_programs programs
test_of library_and_example library
test_of library_from_c_plus_plus from_c_plus_plus
test_of odd_prefix odd_prefix
test_of odd_prefix_of_a_library odd_prefix_of_a_library
test_of library_exports exports
test_of completion completion
test_of missing_tools missing_tools
! command -v dpkg-shlibdeps >/dev/null || test_of package_without_libraries package_without_libraries
if sh install/site.sh --needs 2>/dev/null; then
    test_of site sh install/site.sh "$BUILD"
    test_of site_titles grep -q '<title>Regime II - dmft-solve' "$BUILD/site/theory/regime2.html"
else
    echo '[  SKIPPED ] site: no mkdocs with KaTeX here'
fi
exit $bad
