#!/bin/sh
# BUILD/site: README.md and docs/*.md as pages, with a search and formulas; nothing comes from a network.
# usage: site.sh BUILD, or site.sh --needs, which says what is missing here
set -eu
katex=${KATEX:-/usr/share/javascript/katex}
python3=${PYTHON:-/usr/bin/python3}
if ! { command -v mkdocs && [ -d /usr/share/mkdocs/themes/material ] && [ -e "$katex/katex.min.js" ] &&
    "$python3" -c 'import pymdownx'; } >/dev/null 2>&1; then
    echo 'make site: needs mkdocs with its theme material, pymdownx and KaTeX' \
        '(apt-get install mkdocs-material python3-pymdownx libjs-katex)' >&2
    exit 1
fi
[ "${1:?}" != --needs ] || exit 0
. install/needs.sh
needs 'make site' 'coreutils and sed of any Linux' basename cp sed tr
pages=$1/site-pages
rm -rf "$pages"
mkdir -p "$pages"
cp -r docs/. "$pages"
for page in CHANGELOG CONTRIBUTING; do
    sed -E 's|\]\(docs/|](|g' $page.md >"$pages/$page.md"
done
for page in docs/*.md; do # what lies above docs/ is pages of the site, or sources, which it lacks
    sed -E 's,\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md,](\1.md,g; s,\]\(\.\./README\.md,](index.md,g
            s,\[([^]]*)\]\(\.\./[^)]*\),\1,g' "$page" >"$pages/$(basename "$page")"
done
rm -rf "$pages/man"
for page in docs/man/*.1; do # as text, where man can be had
    name=$(basename "$page" .1)
    if command -v man >/dev/null && command -v col >/dev/null; then
        MANWIDTH=90 man -l "$page" >"$1/site-manual.man"
        col -bx <"$1/site-manual.man" >"$1/site-manual"
    else
        cp "$page" "$1/site-manual"
    fi
    {
        printf '# %s(1)\n\n```text\n' "$name"
        cat "$1/site-manual"
        printf '```\n'
    } >"$pages/$name.1.md"
done
sed -E 's,(\]\(|src=")docs/,\1,g' README.md >"$pages/index.md"
mkdir "$pages/katex"
cp -rL "$katex/katex.min.css" "$katex/katex.min.js" "$katex/fonts" install/formulas.js install/site.css \
    "$pages/katex"
for page in docs/theory/*.md; do # every network has a page
    name=$(basename "$page" .md)
    title=$(sed -n '1s/^# *//p' "$page" | tr -d '"')
    [ "$name" = parameterizations ] || printf '      - "%s": theory/%s.md\n' "${title%%:*}" "$name"
done >"$1/site-networks"
sed -e "/^  - Networks:/r $1/site-networks" -e "s|@PAGES@|$PWD/$pages|" install/mkdocs.yml >"$1/mkdocs.yml"
mkdocs build --quiet --strict --clean -f "$1/mkdocs.yml" -d "$PWD/$1/site"
rm -f "$1/site/404.html" # for a server, with links from its root
"$python3" install/site_check.py "$1/site"
echo "$1/site/index.html (with a search, which a browser takes from a server alone: python3 -m http.server -d $1/site)"
