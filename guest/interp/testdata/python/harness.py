"""Runs programs of the subset that Python and the script dialect share.

Standard input is a JSON list of programs, standard output the list of what
they print and how they end, one text each.
"""

import io
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


def run(program):
    stream, out = io.StringIO(), []

    def output(*values, **options):
        print(*values, file=stream, **options)

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
    text = stream.getvalue()
    if text and not text.endswith("\n"):
        text += "\n"
    return text + "\n".join(out) + ("\n" if out or not text else "")


json.dump([run(p) for p in json.load(sys.stdin)], sys.stdout)
