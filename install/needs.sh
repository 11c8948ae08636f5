# needs WHO HOW TOOL...: ends with 1 and one sentence where a tool is missing. To be read by scripts, at
# their start: `set -e` sees neither the left side of a pipe nor what stands in a here-document.
needs() {
    who=$1 how=$2 missing=
    shift 2
    for tool in "$@"; do
        command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    [ -z "$missing" ] || {
        echo "$who: needs$missing, which cannot be found on PATH ($how)" >&2
        exit 1
    }
}
