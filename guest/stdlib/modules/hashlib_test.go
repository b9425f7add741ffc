package modules_test

import (
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/hashlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestHashlib(t *testing.T) {
	scripts := []string{
		"hashlib.md5(b'a').hexdigest()",
		"hashlib.sha1(b'a').hexdigest()",
		"hashlib.sha224(b'a').hexdigest()",
		"hashlib.sha256(b'a').hexdigest()",
		"hashlib.sha384().hexdigest()",
		"hashlib.sha512(b'a').digest()",
		"hashlib.sha256('a')",
		"hashlib.new('sha256', b'x').hexdigest()",
		"hashlib.new('nope')",
		"h = hashlib.sha256()\nh.update(b'a')\ng = h.copy()\nh.update(b'b')\nr = (h.hexdigest(), g.hexdigest(), h.digest_size, h.block_size, h.name)",
		"hashlib.md5(b'a', usedforsecurity=False).hexdigest()",
		"hmac.new(b'key', b'msg', 'sha256').hexdigest()",
		"hmac.new(b'key', b'msg', hashlib.sha1).hexdigest()",
		"hmac.new(b'k' * 200, b'msg', 'md5').digest()",
		"h = hmac.new(b'k', digestmod='sha256')\nh.update(b'a')\ng = h.copy()\nh.update(b'b')\nr = (h.hexdigest(), g.hexdigest(), h.name)",
		"hmac.new(b'key', b'msg')",
		"hmac.new('key', b'msg', 'sha256')",
		"hmac.new(b'key', 'msg', 'sha256')",
		"hmac.digest(b'k', b'm', 'sha256')",
		"hmac.compare_digest('a', 'a')",
		"hmac.compare_digest(b'a', b'b')",
		"hmac.compare_digest('a', b'a')",
		"hmac.compare_digest('é', 'é')",
		"zlib.crc32(b'hello')",
		"zlib.adler32(b'hello')",
		"zlib.crc32('x')",
		"'sha256' in hashlib.algorithms_available",
		"hashlib.sha256(b'a').update('b')",
	}
	for _, name := range []string{"md5", "sha1", "sha224", "sha256", "sha384", "sha512"} {
		for _, n := range []int{0, 1, 55, 56, 57, 63, 64, 65, 111, 112, 113, 119, 120, 127, 128, 129, 1000, 70000} {
			scripts = append(scripts, fmt.Sprintf("hashlib.%s(b'ab\\xff' * %d + b'x' * %d).hexdigest()", name, n/3, n%3),
				fmt.Sprintf("hmac.new(b'k' * %d, b'm' * %d, '%s').hexdigest()", n%300, n, name))
		}
	}
	stdlibtest.Same(t, stdlibtest.Names(hashlib.Module(), hashlib.HMAC(), hashlib.Zlib()), "import hashlib, hmac, zlib", 0, scripts)
}

func TestHashlibHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(hashlib.Module(), hashlib.HMAC(), hashlib.Zlib()), []stdlibtest.Case{
		{Script: "hmac.new(b'k', b'm', 'nope')", Want: "!ValueError"},
	})
}
