#!/bin/sh
# A model that takes four attempts. Its first argument is what was wrong with the last one, and it acts on that, as a model does
# that finds it in its prompt.
set -eu
cd "$(dirname "$0")"
hint=$1

beginning() {
    cat <<'SHELL'
# A queue that refuses more than it can hold.
set -eu
limit=2
count=0
items=
SHELL
}

rest() {
    cat <<'SHELL'

push() {
    if [ "$count" -ge "$limit" ]; then
        return 1
    fi
    items="$items $1"
    count=$((count + 1))
}

pop() {
    if [ "$count" -eq 0 ]; then
        return 1
    fi
    set -- $items
    popped=$1
    shift
    items=$*
    count=$((count - 1))
}

push a
push b
if push c; then
    echo "it took a third one"
    exit 1
fi
pop
[ "$popped" = a ]
pop
[ "$popped" = b ]
echo "the queue holds"
SHELL
}

answer() {
    printf 'Wrote work/queue.sh:\n\n```sh\n'
    cat work/queue.sh
    printf '```\n'
}

case "$hint" in
'') # Nobody has complained yet: it grows tired.
    { beginning; printf '\n# ... rest of the functions omitted\n'; } > work/queue.sh
    answer
    ;;
*incomplete* | *不完全*) # It writes more, and leaves something for later.
    { beginning; printf '\npush() {\n    # TODO: refuse when it is full\n    items="$items $1"\n}\n'; } > work/queue.sh
    answer
    ;;
*TODO*) # It thinks for too long.
    beginning > work/queue.sh
    sleep 60
    ;;
*) # It delivers.
    { beginning; rest; } > work/queue.sh
    answer
    ;;
esac
