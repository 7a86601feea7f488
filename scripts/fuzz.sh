#!/usr/bin/env bash
# Runs fuzz targets one after the other: all that there are, or the one that is named, as FOLDER:NAME or NAME.
#
#   fuzz.sh run TIME WORKERS [TARGET]   each for TIME, until the first finding
#   fuzz.sh keep [TARGET]               copy inputs that they found into testdata/fuzz, where every test runs them
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}

# What keep leaves in the folder of a target: so many inputs, each of so many bytes at most.
max_inputs=6
max_bytes=4096

# targets prints the folder and the name of each target that matches.
targets() {
    local file name folder found=''
    while IFS=: read -r file name; do
        folder=$(dirname "${file#./}")
        name=${name#func }
        if [ -z "$1" ] || [ "$1" = "$name" ] || [ "$1" = "$folder:$name" ]; then
            found=yes
            echo "$folder $name"
        fi
    done < <(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | LC_ALL=C sort)
    if [ -z "$found" ]; then
        echo "fuzz: there is no target $1" >&2
        return 1
    fi
}

# inputs FOLDER NAME prints the inputs that are kept, findings among them.
inputs() { ls "$1/testdata/fuzz/$2" 2>/dev/null || true; }

# only_out_of_time reports whether a run that failed said nothing but that its time was up, and left no input: so Go
# ends a run now and then, up to 1.26 (https://go.dev/issue/75804). A finding names what failed, and is left as an input.
only_out_of_time() {
    [ "$(sed -n '/^--- FAIL: /,$p' "$1" | sed -n '2,/^FAIL$/p')" = $'    context deadline exceeded\nFAIL' ]
}

run() {
    local time=$1 workers=$2 list folder name before status log tried summary=''
    list=$(targets "$3")
    log=$(mktemp)
    trap "rm -f '$log'" EXIT
    while read -r folder name; do
        echo "==> $folder:$name"
        before=$(inputs "$folder" "$name")
        status=0
        "$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 5s -parallel "$workers" -timeout 0 \
            "./$folder" </dev/null 2>&1 | tee "$log" || status=$?
        if [ "$status" -ne 0 ]; then
            if [ "$(inputs "$folder" "$name")" != "$before" ] || ! only_out_of_time "$log"; then
                echo "fuzz: $folder:$name failed" >&2
                return 1
            fi
            echo "fuzz: that was the end of the time, not a finding (https://go.dev/issue/75804)"
        fi
        tried=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
        if [ "${tried:-0}" -eq 0 ]; then
            echo "fuzz: $folder:$name tried no new input in $time" >&2
            return 1
        fi
        summary+="$folder:$name $tried inputs"$'\n'
    done <<<"$list"
    printf 'fuzz: no finding in %s each\n%s' "$time" "$summary"
}

# keep takes what was found last: it took the longest to find.
keep() {
    local list folder name cache into input room folders=()
    list=$(targets "$1")
    while read -r folder name; do
        cache=$("$GO" env GOCACHE)/fuzz/$("$GO" list "./$folder")/$name
        into=$folder/testdata/fuzz/$name
        room=$((max_inputs - $(inputs "$folder" "$name" | wc -l)))
        if ! [ -d "$cache" ]; then continue; fi
        for input in $(ls -t "$cache"); do
            if [ "$room" -le 0 ]; then break; fi
            if [ -e "$into/$input" ] || [ "$(wc -c <"$cache/$input")" -gt "$max_bytes" ]; then continue; fi
            mkdir -p "$into"
            cp "$cache/$input" "$into/$input"
            room=$((room - 1))
        done
        folders+=("./$folder")
        echo "$folder:$name $(inputs "$folder" "$name" | wc -l) inputs"
    done <<<"$list"
    if [ ${#folders[@]} -gt 0 ]; then "$GO" test -run '^Fuzz' "${folders[@]}"; fi
}

case ${1:-} in
run) run "${2:-1m}" "${3:-1}" "${4:-}" ;;
keep) keep "${2:-}" ;;
*)
    echo "fuzz: run or keep?" >&2
    exit 2
    ;;
esac
