package tools_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// A store keeps tools as files. When a tool changes, its previous form becomes a version
// that can be restored.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "tools-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := tools.OpenStore(dir, tools.StoreOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	def := tools.Definition{
		Name:        "count_issues",
		Description: "Counts the open issues of a repository.",
		InputSchema: []byte(`{"type":"object","properties":{"repo":{"type":"string"}},"required":["repo"]}`),
		Code:        "return len(github.list_issues(repo=params.repo))",
	}
	for _, code := range []string{def.Code, "return github.search_issues(q='repo:' + params.repo).total_count"} {
		def.Code = code
		saved, created, err := store.Save(def)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(saved.Name, "is new:", created)
	}
	to, changed, err := store.Revert("count_issues", 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("back to version", to.Number, changed)
	fmt.Println(to.Definition.Code)
	// Output:
	// count_issues is new: true
	// count_issues is new: false
	// back to version 1 true
	// return len(github.list_issues(repo=params.repo))
}

// Arguments are checked against a tool's input schema before its script runs. The error
// lists each violation with a hint.
func ExampleSchema_ValidateArguments() {
	schema, err := tools.CompileInputSchema([]byte(`{
		"type": "object",
		"properties": {"repo": {"type": "string"}, "limit": {"type": "integer", "maximum": 100}},
		"required": ["repo"],
		"additionalProperties": false
	}`), "inputSchema")
	if err != nil {
		log.Fatal(err)
	}
	err = schema.ValidateArguments([]byte(`{"repo": "a/b", "limt": 10, "limit": 1000}`), nil)
	var invalid *tools.ValidationError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			fmt.Println(v)
		}
	}
	// Output:
	// /: unknown property "limt" (did you mean "limit"?)
	// /limit: got 1000, want at most 100
}
