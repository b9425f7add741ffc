// Package modules has the table of all modules for scripts.
package modules

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/base64"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/bisect"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/copy"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/csv"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/datetime"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/functools"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/hashlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/heapq"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/html"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/itertools"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/operator"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/random"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/re"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/statistics"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/string"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/textwrap"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/urllib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/uuid"
)

// All are the modules, by name. Package interp has json and math, with additional functions.
var All = []stdlib.Entry{
	stdlib.Lazy("base64", base64.Module),
	stdlib.Lazy("binascii", base64.Binascii),
	stdlib.Lazy("bisect", bisect.Module),
	stdlib.Lazy("collections", collections.Module),
	stdlib.Lazy("copy", copy.Module),
	stdlib.Lazy("csv", csv.Module),
	stdlib.Lazy("datetime", datetime.Module),
	stdlib.Lazy("functools", functools.Module),
	stdlib.Lazy("hashlib", hashlib.Module),
	stdlib.Lazy("heapq", heapq.Module),
	stdlib.Lazy("hmac", hashlib.HMAC),
	stdlib.Lazy("html", html.Module),
	stdlib.Lazy("io", csv.IO),
	stdlib.Lazy("itertools", itertools.Module),
	stdlib.Lazy("operator", operator.Module),
	stdlib.Lazy("random", random.Module),
	stdlib.Lazy("re", re.Module),
	stdlib.Lazy("statistics", statistics.Module),
	stdlib.Lazy("string", string.Module),
	stdlib.Lazy("textwrap", textwrap.Module),
	stdlib.Lazy("time", datetime.Time),
	stdlib.Lazy("urllib.parse", urllib.Module),
	stdlib.Lazy("uuid", uuid.Module),
	stdlib.Lazy("zlib", hashlib.Zlib),
	stdlib.Lazy("zoneinfo", datetime.ZoneInfo),
}
