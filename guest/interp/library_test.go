package interp

import (
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// TestLibrary runs scripts that import modules, as scripts do.
func TestLibrary(t *testing.T) {
	for _, test := range []struct{ code, want string }{
		{"import re\nreturn [m.group(1) for m in re.finditer(r'(\\d+)', 'a1 b22')]", `["1","22"]`},
		{"from re import sub\nreturn sub('a', lambda m: m.group().upper(), 'banana')", `"bAnAnA"`},
		{"import json\ntry:\n    json.loads('{x')\nexcept json.JSONDecodeError as e:\n    return [type(e).__name__, e.pos, str(e)]", `["JSONDecodeError",1,"Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"]`},
		{"import json\ntry:\n    json.loads('{x')\nexcept ValueError as e:\n    return 'caught'", `"caught"`},
		{"import json\nreturn json.dumps({'b': [1, 2.0, None], 'a': 'é'}, sort_keys=True)", `"{\"a\": \"\\u00e9\", \"b\": [1, 2.0, null]}"`},
		{"from collections import Counter, defaultdict, deque, namedtuple, OrderedDict\nc = Counter('a b a'.split())\nd = defaultdict(list)\nfor k in 'xyx':\n    d[k].append(k)\nq = deque([1, 2], maxlen=2)\nq.append(3)\nP = namedtuple('P', 'x y')\nreturn [c, d, q, P(1, 2), OrderedDict(a=1), c.most_common(1), isinstance(d, dict), isinstance(P(1, 2), tuple), isinstance(P(1, 2), P)]", `[{"a":2,"b":1},{"x":["x","x"],"y":["y"]},[2,3],[1,2],{"a":1},[["a",2]],true,true,true]`},
		{"from collections import Counter\nc = Counter()\nfor w in ['a', 'b', 'a']:\n    c[w] += 1\nreturn [str(c), c == {'a': 2, 'b': 1}, {'a': 2, 'b': 1} == c, sorted(c), len(c), 'a' in c, c.get('z', 0)]", `["Counter({'a': 2, 'b': 1})",true,true,["a","b"],2,true,0]`},
		{"from datetime import datetime, timedelta, timezone\nd = datetime(2024, 2, 28, tzinfo=timezone.utc) + timedelta(days=1)\nreturn [d, f'{d:%d.%m.%Y}', str(d), '{:%H:%M}'.format(d), d.isoformat()]", `["2024-02-29 00:00:00+00:00","29.02.2024","2024-02-29 00:00:00+00:00","00:00","2024-02-29T00:00:00+00:00"]`},
		{"from datetime import datetime\nimport time\nreturn [datetime.now().isoformat(), time.time()]", `["2026-03-04T05:06:07.891011",1772600767.891011]`},
		{"import random, uuid\nrandom.seed(5)\na = random.random()\nrandom.seed(5)\nreturn [a == random.random(), len(str(uuid.uuid4()))]", `[true,36]`},
		{"import itertools, functools, operator, heapq, bisect\nreturn [list(itertools.islice(itertools.count(), 3)), functools.reduce(operator.add, [1, 2, 3]), heapq.nlargest(2, [1, 3, 2]), bisect.bisect([1, 2, 3], 2), sum(itertools.chain([1], [2])), next(itertools.cycle('ab')), sorted(itertools.permutations([2, 1]))]", `[[0,1,2],6,[3,2],2,3,"a",[[1,2],[2,1]]]`},
		{"import functools\n@functools.lru_cache(maxsize=None)\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nreturn fib(50)", `12586269025`},
		{"import math, statistics\nreturn [math.gcd(12, 18), math.sqrt(2) > 1.41, math.inf > 5, statistics.mean([1, 2, 4]), math.floor(-0.5), math.comb(5, 2)]", `[6,true,true,2.3333333333333335,-1,10]`},
		{"import math\ntry:\n    math.sqrt(-1)\nexcept ValueError as e:\n    return str(e)", `"math domain error"`},
		{"import base64, hashlib, hmac, zlib\nreturn [base64.b64encode('hi'.encode()).decode(), hashlib.sha256(b'a').hexdigest()[:8], hmac.new(b'k', b'm', hashlib.sha256).hexdigest()[:8], zlib.crc32(b'hi')]", `["aGk=","ca978112","b60090e3",3633523372]`},
		{"from urllib.parse import urlencode, urlparse, quote\nreturn [urlencode({'a': 'x y'}), urlparse('https://h:1/p?q').port, quote('é')]", `["a=x+y",1,"%C3%A9"]`},
		{"import urllib.parse\nreturn urllib.parse.quote('a b')", `"a%20b"`},
		{"import csv, io\nf = io.StringIO()\nw = csv.DictWriter(f, ['a', 'b'])\nw.writeheader()\nw.writerow({'a': 1, 'b': 'x,y'})\nreturn [f.getvalue(), list(csv.DictReader(io.StringIO(f.getvalue())))]", `["a,b\r\n1,\"x,y\"\r\n",[{"a":"1","b":"x,y"}]]`},
		{"import textwrap, string, html, copy\nx = [[1]]\ny = copy.deepcopy(x)\ny[0].append(2)\nreturn [textwrap.dedent('  a\\n  b'), string.digits, html.escape('<'), x, y, string.Template('$a').substitute(a=1)]", `["a\nb","0123456789","&lt;",[[1]],[[1,2]],"1"]`},
		{"from zoneinfo import ZoneInfo\nfrom datetime import datetime\nreturn datetime(2024, 7, 1, tzinfo=ZoneInfo('Europe/Berlin')).isoformat()", `"2024-07-01T00:00:00+02:00"`},
		{"from collections import deque\nq = deque()\nq.append(q)\nreturn str(q)", `"deque([...])"`},
		{"from collections import defaultdict\nd = defaultdict(lambda: defaultdict(int))\nd['a']['b'] += 1\nreturn [d, dict(d) == {'a': {'b': 1}}]", `[{"a":{"b":1}},true]`},
	} {
		req := abi.Request{Op: abi.OpRun, Code: test.code, Now: 1772600767891011, Seed: 42}
		got, err := Run(req, nil)
		if err != nil {
			t.Errorf("%s\n  %s: %s", test.code, err.Type, err.Message)
		} else if string(got) != test.want {
			t.Errorf("%s\n  got  %s\n  want %s", test.code, got, test.want)
		}
	}
}

// TestLibraryLimits: what would not fit in the memory of the run ends it, and cannot be
// caught.
func TestLibraryLimits(t *testing.T) {
	for _, code := range []string{
		"import itertools\nlist(itertools.product([0], repeat=10 ** 12))",
		"import random\nrandom.choices([1], k=10 ** 12)",
		"import re\nre.sub('', 'x' * 100000, 'y' * 100000)",
		"import collections\ncollections.deque([1]) * 10 ** 10",
		"import io\nf = io.StringIO()\nf.seek(10 ** 10)\nf.write('x')",
	} {
		caught := "try:\n    " + strings.ReplaceAll(code, "\n", "\n    ") + "\nexcept:\n    pass"
		_, err := Run(abi.Request{Op: abi.OpRun, Code: caught, Memory: 16 << 20}, nil)
		if err == nil || err.Type != abi.ErrResource || err.Limit != abi.LimitMemory {
			t.Errorf("%s: %+v", code, err)
		}
	}
}
