#!/bin/sh
# A model that takes four attempts. It reads what was wrong with the last one as its first argument, as a prompt would hold it.
# REDRIVE_ATTEMPT stands for what it has learned; a real model would read the hint.
set -eu
cd "$(dirname "$0")"

head_of_file() {
    cat <<'PYTHON'
class BoundedQueue:
    """A queue that refuses more than it can hold."""

    def __init__(self, limit):
        if limit < 1:
            raise ValueError("a queue holds at least one")
        self.limit = limit
        self.items = []
PYTHON
}

rest_of_file() {
    cat <<'PYTHON'

    def push(self, item):
        if len(self.items) >= self.limit:
            raise OverflowError("the queue is full")
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise LookupError("the queue is empty")
        return self.items.pop(0)


if __name__ == "__main__":
    queue = BoundedQueue(2)
    queue.push("a")
    queue.push("b")
    try:
        queue.push("c")
        raise AssertionError("it took a third one")
    except OverflowError:
        pass
    assert [queue.pop(), queue.pop()] == ["a", "b"]
    print("the queue holds")
PYTHON
}

answer() {
    printf 'Wrote work/queue.py:\n\n```python\n'
    cat work/queue.py
    printf '```\n'
}

case "${REDRIVE_ATTEMPT:-1}" in
1) # It grows tired.
    { head_of_file; printf '\n    # ... rest of the methods omitted\n'; } > work/queue.py
    answer
    ;;
2) # It leaves something for later.
    { head_of_file; printf '\n    def push(self, item):\n        # TODO: refuse when it is full\n        self.items.append(item)\n'; } > work/queue.py
    answer
    ;;
3) # It thinks for too long.
    head_of_file > work/queue.py
    sleep 60
    ;;
*) # It delivers.
    { head_of_file; rest_of_file; } > work/queue.py
    answer
    ;;
esac
