#!/bin/sh
# BUILD/site: README.md and docs/*.md as pages, with a search. usage: site.sh BUILD
set -eu
command -v mkdocs >/dev/null || {
    echo 'make site: needs mkdocs (apt-get install mkdocs)' >&2
    exit 1
}
pages=${1:?}/site-pages
rm -rf "$pages"
mkdir -p "$pages"
cp -r docs/. "$pages"
cp CHANGELOG.md "$pages"
sed -E 's|\]\(docs/|](|g' CONTRIBUTING.md >"$pages/CONTRIBUTING.md"
rm -rf "$pages/man"
for page in docs/man/*.1; do # as text, where man can be had
    name=$(basename "$page" .1)
    {
        printf '# %s(1)\n\n```text\n' "$name"
        if command -v man >/dev/null; then MANWIDTH=90 man -l "$page" | col -bx; else cat "$page"; fi
        printf '```\n'
    } >"$pages/$name.1.md"
done
sed -E 's|\]\(docs/|](|g' README.md >"$pages/index.md"
for page in docs/theory/*.md; do # every network has a page
    name=$(basename "$page" .md)
    [ "$name" = parameterizations ] || printf '      - %s: theory/%s.md\n' "$name" "$name"
done >"$1/site-networks"
sed "/^  - Networks:/r $1/site-networks" install/mkdocs.yml |
    sed "s|@PAGES@|$PWD/$pages|" >"$1/mkdocs.yml"
mkdocs build --quiet --strict --clean -f "$1/mkdocs.yml" -d "$PWD/$1/site"
echo "$1/site/index.html"
