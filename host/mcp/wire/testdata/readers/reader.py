"""Reads a list of paths and then messages, one per line. For each message, writes what
each way of reading finds at the paths: a string, or null for anything else."""
import json
import re
import sys


def last(members, key):
    return dict(members).get(key)


def first(members, key):
    return next((v for k, v in members if k == key), None)


def folded(members, key):
    return next((v for k, v in reversed(members) if k.casefold() == key.casefold()), None)


def snake(key):
    return re.sub(r"[A-Z]", lambda m: "_" + m.group().lower(), re.sub(r"[./-]", "_", key)).lstrip("_")


def by_name(members, key):
    """As a model of pydantic does with an alias for each member and
    populate_by_name, where no name begins with an underscore. Results are not held
    to that (see Shape)."""
    names = dict(members)
    return names.get(key, names.get(snake(key)))


def look(find, value, path):
    if find is by_name and path[0] != "params":
        find = last
    for name in path:
        if not isinstance(value, Members):
            return None
        value = find(value, name)
    return value if isinstance(value, str) else None


class Members(list):
    pass


paths = json.loads(sys.stdin.buffer.readline())
for line in sys.stdin.buffer:
    try:
        message = json.loads(line, object_pairs_hook=Members)
        out = [[look(find, message, p) for p in paths] for find in (last, first, folded, by_name)]
    except Exception as e:
        out = {"error": repr(e)}
    sys.stdout.write(json.dumps(out) + "\n")
    sys.stdout.flush()
