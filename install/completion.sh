#!/bin/sh
# Completion for a shell (bash or zsh), from what `dmft-solve --help` says of every key:
#   section.key   text [default X; one of a b c; ...]
# and what is indented more goes on with the line before.
# usage: completion.sh SHELL PROGRAM
set -eu
. install/needs.sh
needs 'install/completion.sh' 'awk, cat and sed of any Linux' awk cat sed
help=$("$2" --help)
help=$(echo "$help" | awk '{
    further = sub(/^   +/, " ")
    printf "%s%s", NR == 1 || further ? "" : "\n", $0
} END { print "" }')
keys=$(echo "$help" | sed -nE 's/^  ([a-z]+\.[a-z0-9_]+) .*/\1/p' | awk '!seen[$0]++')
networks=$(echo "$help" | sed -n '/^Networks/,$p' | sed -nE '2,$s/^([a-z0-9]+) .*/\1/p')
# "key) list ;;" for each key with choices
choices=$(echo "$help" |
    sed -nE 's/^  ([a-z]+\.[a-z0-9_]+) .*[[;] ?one (or several )?of ([^];]*)[];].*/\1) list="\3" ;;/p')
[ -n "$keys" ] && [ -n "$networks" ] && [ -n "$choices" ] || {
    echo "install/completion.sh: $2 --help has no keys, networks or choices" >&2
    exit 1
}
cat <<END
$([ "$1" = zsh ] && echo '#compdef dmft-solve dmft-sweep dmft-compare' || echo '# bash completion of dmft-solve, dmft-sweep and dmft-compare')
# Made by install/completion.sh from dmft-solve --help.
_dmft_words() { # of a key, into \$list
    list=
    case \$1 in
$(echo "$choices" | sed 's/^/    /')
    esac
}
_dmft_keys="$(echo $keys)"
_dmft_networks="$(echo $networks)"
_dmft_options() { # of a program, into \$list
    list="-o --force --quiet --help --version"
    case \$1 in
    *-solve) list="\$list --profile --defaults --program --no-limit --programs --estimate --operations --continue --predict" ;;
    *-compare) list="\$list --continue" ;;
    *-sweep) list="\$list --jobs --retry --points" ;;
    esac
}
END
if [ "$1" = bash ]; then
    cat <<'END'
_dmft() {
    local list k word=${COMP_LINE:0:COMP_POINT} before=${COMP_WORDS[COMP_CWORD - 1]}
    word=${word##*[[:space:]]}
    COMPREPLY=()
    if [[ $word == --*=* ]]; then
        k=${word%%=*}
        _dmft_words "${k#--}"
        COMPREPLY=($(compgen -W "$list" -- "${word#*=}"))
        if [[ $COMP_WORDBREAKS != *=* ]]; then
            COMPREPLY=("${COMPREPLY[@]/#/$k=}")
        fi
    elif [[ $word == -* ]]; then
        _dmft_options "${COMP_WORDS[0]}"
        for k in $_dmft_keys; do list="$list --$k="; done
        COMPREPLY=($(compgen -W "$list" -- "$word"))
        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    elif [[ $before == --help && ${COMP_WORDS[0]} == *-solve ]]; then
        COMPREPLY=($(compgen -W "$_dmft_networks" -- "$word"))
    else
        local IFS=$'\n' # names may have blanks
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -d -- "$word") $(compgen -f -X '!*.ini' -- "$word")
            $(compgen -f -X '!*.h5' -- "$word"))
    fi
}
complete -F _dmft dmft-solve dmft-sweep dmft-compare
END
else
    cat <<'END'
_dmft() {
    local list k
    local -a all
    if [[ $PREFIX == --*=* ]]; then
        k=${${PREFIX%%=*}#--}
        _dmft_words $k
        compset -P '*='
        compadd -- ${=list}
    elif [[ $PREFIX == -* ]]; then
        _dmft_options $service
        compadd -- ${=list}
        all=(${=_dmft_keys})
        compadd -S '' -- --${^all}=
    elif [[ $words[CURRENT-1] == --help && $service == *-solve ]]; then
        compadd -- ${=_dmft_networks}
    else
        _files -g '*.(ini|h5)'
    fi
}
_dmft "$@"
END
fi
