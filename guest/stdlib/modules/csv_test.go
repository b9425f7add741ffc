package modules_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/csv"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestCSV(t *testing.T) {
	scripts := []string{
		`list(csv.reader(['a,b,c', '1,"2,3",4']))`,
		"list(csv.reader(['a;b'], delimiter=';'))",
		`list(csv.reader(['a\tb'], 'excel-tab'))`,
		`list(csv.reader(['a,"b""c",d']))`,
		`list(csv.reader(['a,"b\n', 'c",d']))`,
		"list(csv.reader(['', 'a', '']))",
		"list(csv.reader(['a, b'], skipinitialspace=True))",
		`list(csv.reader(['1,"2"'], quoting=csv.QUOTE_NONNUMERIC))`,
		"list(csv.reader(['a,b'], quoting=csv.QUOTE_NONE))",
		"list(csv.reader([1]))",
		"list(csv.reader(['a'], delimiter='ab'))",
		"list(csv.reader(['a'], dialect='x'))",
		`list(csv.reader(['a\\,b'], escapechar='\\'))`,
		`list(csv.reader(['"a"b'], strict=True))`,
		`list(csv.reader(['"a'], strict=True))`,
		`list(csv.reader(['a\rb']))`,
		`list(csv.reader(io.StringIO('x,y\n1,2\n')))`,
		"r0 = csv.reader(['a', 'b'])\nnext(r0)\nr = (r0.line_num, list(r0))",
		"list(csv.DictReader(['a,b', '1,2', '3,4']))",
		"list(csv.DictReader(['1,2'], fieldnames=['x', 'y']))",
		"list(csv.DictReader(['a,b', '1', '1,2,3']))",
		"list(csv.DictReader(['a,b', '1', '1,2,3'], restkey='more', restval='-'))",
		"d = csv.DictReader(['a,b', '1,2'])\nr = d.fieldnames",
		"list(csv.DictReader([]))",
		"list(csv.reader(['x'], foo=1))",
		"f = io.StringIO()\nw = csv.writer(f)\nw.writerow(['a', 1, 2.5, None, 'x,y', 'q\"', 'n\\nl', True])\nr = f.getvalue()",
		"f = io.StringIO()\nw = csv.writer(f, delimiter=';', quoting=csv.QUOTE_ALL, lineterminator='\\n')\nw.writerows([[1, 2], ['a', '']])\nr = f.getvalue()",
		"f = io.StringIO()\nw = csv.writer(f, quoting=csv.QUOTE_NONE)\nr = w.writerow(['a,b'])",
		"f = io.StringIO()\nw = csv.writer(f, quoting=csv.QUOTE_NONE, escapechar='\\\\')\nw.writerow(['a,b', 'c\"'])\nr = f.getvalue()",
		"f = io.StringIO()\nw = csv.writer(f, quoting=csv.QUOTE_NONNUMERIC)\nw.writerow(['a', 1, 2.5])\nr = f.getvalue()",
		"f = io.StringIO()\nw = csv.writer(f)\nw.writerow([''])\nw.writerow([])\nw.writerow(['', ''])\nr = f.getvalue()",
		"f = io.StringIO()\nw = csv.DictWriter(f, fieldnames=['a', 'b'])\nw.writeheader()\nw.writerow(dict(a=1, b=2))\nw.writerows([dict(a=3)])\nr = f.getvalue()",
		"csv.DictWriter(io.StringIO(), ['a']).writerow(dict(z=1))",
		"f = io.StringIO()\ncsv.DictWriter(f, ['a'], extrasaction='ignore').writerow(dict(z=1, a=2))\nr = f.getvalue()",
		"csv.DictWriter(io.StringIO(), ['a'], extrasaction='x')",
		"csv.writer(io.StringIO()).writerow(5)",
		"f = io.StringIO()\nr = csv.writer(f).writerow(['ab'])",
		"csv.writer()",
		"f = io.StringIO('a\\nbé\\nc')\nr = (f.readline(), f.read(1), f.tell(), f.readlines(), f.read())",
		"f = io.StringIO()\nf.write('abc')\nf.seek(1)\nf.write('é')\nr = (f.getvalue(), f.tell())",
		"f = io.StringIO('abc')\nr = [l for l in f]",
		"f = io.StringIO('a\\nb\\n')\nr = list(f)",
		"io.StringIO(1)",
		"io.StringIO().write(1)",
		"f = io.StringIO('x')\nf.close()\nr = f.read()",
		"f = io.StringIO('abc')\nf.seek(0, 2)\nf.write('d')\nr = f.getvalue()",
		"f = io.StringIO('abcdef')\nf.truncate(3)\nr = f.getvalue()",
		"f = io.StringIO()\nf.writelines(['a', 'b'])\nr = f.getvalue()",
		"io.StringIO('abc').seek(-1)",
		"f = io.BytesIO(b'abc')\nr = (f.read(2), f.getvalue(), f.tell())",
		"io.BytesIO('x')",
		"f = io.BytesIO()\nf.write(b'ab')\nr = f.getvalue()",
		"f = io.StringIO('日本語')\nf.seek(1)\nf.write('x')\nr = f.getvalue()",
		"f = io.StringIO()\nf.seek(3)\nf.write('x')\nr = f.getvalue()",
		"io.StringIO('ab').readline(1)",
		"f = io.StringIO('x')\nr = f.closed",
	}
	g := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"a", ",", "\"", "\n", "\r", " ", ";", "\\", "1", "é", "\"\""}
	for range rounds(3000) {
		text := ""
		for range g.IntN(10) {
			text += pieces[g.IntN(len(pieces))]
		}
		option := []string{"", ", delimiter=';'", ", skipinitialspace=True", ", doublequote=False, escapechar='\\\\'", ", quoting=csv.QUOTE_NONE, escapechar='\\\\'", ", quoting=csv.QUOTE_ALL", ", strict=True"}[g.IntN(7)]
		scripts = append(scripts, fmt.Sprintf("list(csv.reader([%s]%s))", strconv.Quote(text), option),
			fmt.Sprintf("f = io.StringIO()\ncsv.writer(f%s).writerow([%s, 1, 'b'])\nr = f.getvalue()", option, strconv.Quote(text)))
	}
	stdlibtest.Same(t, stdlibtest.Names(csv.Module(), csv.IO()), "import csv, io", 0, scripts)
}

func TestCSVHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(csv.Module(), csv.IO()), []stdlibtest.Case{
		{Script: "f = io.StringIO()\nfor i in range(100):\n    f.write('x' * 1000000)\nr = 1", Want: "!memory"},
		{Script: "f = io.StringIO()\nf.seek(1 << 39)\nf.write('x')\nr = 1", Want: "!memory"},
		{Script: `list(csv.reader(['"' + 'x' * 200000]))`, Want: "!csv.Error"},
	})
}
