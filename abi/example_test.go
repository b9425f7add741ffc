package abi_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// A host function returns a code and a length in one number.
func ExampleUnpack() {
	const result = 0x0000_0001_0000_012c // what answer_read returned
	code, length := abi.Unpack(result)
	fmt.Println(code == abi.ToolError, length)
	fmt.Printf("%#x\n", abi.Pack(code, length))
	// Output:
	// true 300
	// 0x10000012c
}

// Tools and servers whose names are no identifiers have other names in scripts.
func ExampleIdent() {
	fmt.Println(abi.Ident("list-issues"), abi.Ident("7zip"))
	// Output: list_issues _7zip
}

// A guest makes tool calls in batches of JSON.
func ExampleToolCall() {
	batch, err := json.Marshal([]abi.ToolCall{
		{Server: "calc", Tool: "add", Arguments: json.RawMessage(`{"a":1,"b":2}`)},
		{Server: "files", Tool: "read-file", Exact: true, Arguments: json.RawMessage(`{}`)},
	})
	fmt.Println(string(batch), err)
	// Output:
	// [{"server":"calc","tool":"add","arguments":{"a":1,"b":2}},{"server":"files","tool":"read-file","exact":true,"arguments":{}}] <nil>
}
