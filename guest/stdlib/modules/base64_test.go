package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/base64"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
)

func TestBase64(t *testing.T) {
	scripts := []string{
		"base64.b64encode(b'hello')",
		"base64.b64encode('x')",
		"base64.b64decode('aGVsbG8=')",
		"base64.b64decode(b'aGVs bG8=')",
		"base64.b64decode('aGVsbG8')",
		"base64.b64decode('a')",
		"base64.b64decode('aGVsbG8=', validate=True)",
		"base64.b64decode('aG Vs', validate=True)",
		"base64.b64decode('é')",
		"base64.b64decode('=aGVs')",
		"base64.b64decode('aGVs=', validate=True)",
		"base64.b64decode('aG==x', validate=True)",
		"base64.b64decode('aG==Vs')",
		"base64.b64decode('aG=V', validate=True)",
		`base64.urlsafe_b64encode(b'\xfb\xff\xfe')`,
		"base64.urlsafe_b64decode('-__-')",
		`base64.b64encode(b'\xfb\xff', altchars=b'-_')`,
		"base64.b64decode('-_8=', altchars='-_')",
		"base64.b32encode(b'hi')",
		"base64.b32decode('NBUQ====')",
		"base64.b32decode('nbuq====')",
		"base64.b32decode('nbuq====', casefold=True)",
		"base64.b32decode('NB')",
		"base64.b16encode(b'hi')",
		"base64.b16decode('6869')",
		"base64.b16decode('6a', True)",
		"base64.b16decode('6a')",
		"base64.encodebytes(b'x' * 100)",
		`base64.decodebytes(b'eHg=\n')`,
		"binascii.hexlify(b'hi')",
		"binascii.unhexlify('6869')",
		"binascii.unhexlify('686')",
		"binascii.unhexlify('zz')",
		"binascii.crc32(b'hello')",
		"binascii.crc32(b'lo', binascii.crc32(b'hel'))",
		"binascii.b2a_base64(b'hi')",
		"binascii.b2a_base64(b'hi', newline=False)",
		"base64.b64decode(5)",
		"base64.b64encode(b'')",
		"base64.b64decode('')",
	}
	stdlibtest.Same(t, stdlibtest.Names(base64.Module(), base64.Binascii()), "import base64, binascii", 0, scripts)
}

func TestBase64Here(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(base64.Module(), base64.Binascii()), []stdlibtest.Case{
		{Script: "base64.b32decode('!!!!!!!!')", Want: "!binascii.Error"},
	})
}
