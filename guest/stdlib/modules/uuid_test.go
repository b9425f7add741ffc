package modules_test

import (
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/stdlibtest"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/uuid"
)

func TestUUID(t *testing.T) {
	scripts := []string{
		"uuid.UUID('12345678123456781234567812345678')",
		"str(uuid.UUID('{12345678-1234-5678-1234-567812345678}'))",
		"uuid.UUID('x')",
		"uuid.UUID(1)",
		"uuid.UUID(int=5)",
		"uuid.UUID(int=-1)",
		"uuid.UUID(bytes=b'0123456789abcdef').hex",
		"uuid.UUID(bytes=b'1')",
		"uuid.UUID()",
		"uuid.uuid5(uuid.NAMESPACE_DNS, 'example.com')",
		"uuid.uuid3(uuid.NAMESPACE_URL, 'http://x')",
		"uuid.uuid5(1, 'x')",
		"uuid.uuid5(uuid.NAMESPACE_OID, 'x').version",
		"uuid.NAMESPACE_X500.urn",
		"uuid.UUID(int=5).int",
		"uuid.uuid4().version",
		"len(str(uuid.uuid4()))",
		"uuid.uuid4().variant",
		"uuid.UUID(int=1) < uuid.UUID(int=2)",
		"uuid.UUID(int=1) == uuid.UUID(int=1)",
		"uuid.UUID(int=1).version",
		"uuid.uuid4() == uuid.uuid4()",
	}
	stdlibtest.Same(t, stdlibtest.Names(uuid.Module()), "import uuid", 0, scripts)
}

func TestUUIDHere(t *testing.T) {
	stdlibtest.Check(t, stdlibtest.Names(uuid.Module()), []stdlibtest.Case{
		{Script: "str(uuid.uuid4()) == str(uuid.uuid4())", Want: "False"},
	})
}
