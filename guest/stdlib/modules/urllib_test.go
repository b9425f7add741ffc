package modules_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/urllib"
)

func TestURLLib(t *testing.T) {
	scripts := []string{
		"parse.quote('a b/c?d=é&~')",
		"parse.quote('a/b', safe='')",
		`parse.quote(b'\xff')`,
		"parse.quote(1)",
		"parse.quote_plus('a b&c')",
		"parse.unquote('a%20b%C3%A9%zz%')",
		"parse.unquote('%ff')",
		"parse.unquote_plus('a+b%2B')",
		"parse.unquote_to_bytes('%ff')",
		"parse.urlencode({'a': 1, 'b': 'x y', 'c': 'é'})",
		"parse.urlencode([('a', 1), ('a', 2)])",
		"parse.urlencode({'a': [1, 2]}, doseq=True)",
		"parse.urlencode({'a': [1, 2]})",
		"parse.urlencode({'a': 'x y'}, quote_via=parse.quote)",
		"parse.urlencode('x')",
		"parse.urlencode(5)",
		"parse.urlencode({'a': None, 'b': True})",
		"parse.parse_qs('a=1&b=2&a=3')",
		"parse.parse_qs('a=&b')",
		"parse.parse_qs('a=&b', keep_blank_values=True)",
		"parse.parse_qsl('a=1+2&b=%C3%A9')",
		"parse.parse_qs('a', strict_parsing=True)",
		"parse.parse_qs('a=1;b=2', separator=';')",
		"parse.parse_qs('a=1&b=2', max_num_fields=1)",
		"parse.parse_qs('')",
		"parse.urlsplit('https://user:pw@example.com:8080/p/a?q=1#f')",
		"parse.urlparse('https://example.com/p;x=1?q#f')",
		"u = parse.urlparse('https://user:pw@Example.com:8080/p')\nr = (u.hostname, u.port, u.username, u.password, u.netloc, u.geturl())",
		"parse.urlparse('//x/y')",
		"parse.urlparse('path')",
		"parse.urlparse('mailto:a@b')",
		"parse.urlparse('http://[::1]:80/').hostname",
		"parse.urlparse('http://[::1')",
		"parse.urlparse('http://x:99999').port",
		"parse.urlparse('http://x:abc').port",
		"parse.urlparse('http://x').port",
		"parse.urlparse('')",
		"parse.urlunparse(('http', 'x', '/p', '', 'q=1', 'f'))",
		"parse.urlunsplit(('', '', 'a', '', ''))",
		"parse.urljoin('http://a/b/c/d', 'g')",
		"parse.urljoin('http://a/b/c/d', '../g')",
		"parse.urljoin('http://a/b/c/d', '/g')",
		"parse.urljoin('http://a/b/c/d', '//x')",
		"parse.urljoin('http://a/b', 'http://c/d')",
		"parse.urljoin('http://a/b/c/d', '?q')",
		"parse.urljoin('http://a/b', '')",
		"parse.urljoin('', 'x')",
		"parse.urljoin('http://a/b/c/d', './../../../g')",
		"parse.urljoin('http://a/b', '#f')",
		"parse.urldefrag('http://a/b#c')",
		"parse.urldefrag('http://a/b').url",
		"parse.urlparse('https://x/p')._replace(path='/q').geturl()",
		"parse.urlsplit('HTTP://X/').scheme",
		`parse.urlsplit('http://x/ a\tb\n')`,
		"parse.urlunsplit(('http', '', 'x', '', ''))",
	}
	g := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"http:", "//", "a", "b.c", "/", "..", ".", "?", "#", "=", "&", "%41", "%", "+", ";", ":", "@", "80", "é", " "}
	random := func() string {
		text := ""
		for range g.IntN(9) {
			text += pieces[g.IntN(len(pieces))]
		}
		return strconv.Quote(text)
	}
	for range rounds(1500) {
		scripts = append(scripts, fmt.Sprintf("parse.urlparse(%s)", random()), fmt.Sprintf("parse.urljoin(%s, %s)", random(), random()),
			fmt.Sprintf("parse.urlsplit(%s).geturl()", random()), fmt.Sprintf("parse.quote(%s)", random()), fmt.Sprintf("parse.unquote(%s)", random()),
			fmt.Sprintf("parse.parse_qs(%s)", random()), fmt.Sprintf("parse.urljoin('http://a/b/c/d;p?q', %s)", random()))
	}
	stdlibtest.Same(t, stdlibtest.Names(urllib.Module()), "import urllib.parse as parse", 0, scripts)
}

func TestURLLibHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(urllib.Module()), []stdlibtest.Case{
		{Script: "parse.urlencode([('a', 'x' * 100000)] * 1000)", Want: "!memory"},
	})
}
