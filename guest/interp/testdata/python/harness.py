"""Runs programs of the subset that Python and the script dialect share.

Standard input is a JSON list of programs, standard output the list of what
they print and how they end, one text each.
"""

import json
import re
import sys


class ToolError(Exception):
    type = "tool"
    server = None
    tool = None

    def __init__(self, message="ToolError", server=None, tool=None):
        super().__init__(message)
        self.message, self.server, self.tool = message, server, tool

    def __str__(self):
        if self.server is None:
            return self.message
        return "%s.%s: %s" % (self.server, self.tool, self.message)


class Demo:
    @staticmethod
    def echo(arguments):
        return dict(arguments)

    @staticmethod
    def broken(arguments):
        raise ToolError("not found: no such issue", "demo", "broken")


def quoted(value):
    """The text of a value inside a list, with quotes as the dialect has them."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(map(quoted, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(quoted, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        return "{" + ", ".join(quoted(k) + ": " + quoted(v) for k, v in value.items()) + "}"
    return str(value)


def run(program):
    out = []

    def output(*values):
        out.append(" ".join(v if isinstance(v, str) else quoted(v) for v in values))

    names = {"print": output, "Error": Exception, "ToolError": ToolError, "demo": Demo}
    try:
        exec(compile(program, "program", "exec"), names)
    except NameError as e:
        out.append("!unbound " + re.search("'(.*?)'", str(e)).group(1))
    except Exception as e:
        if type(e) in (Exception, ToolError):
            out.append("!raised " + str(e))
        else:
            out.append("!runtime")
    return "\n".join(out) + "\n"


json.dump([run(p) for p in json.load(sys.stdin)], sys.stdout)
