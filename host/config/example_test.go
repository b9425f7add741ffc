package config_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// A configuration is read from a file. Variables in it are expanded, settings that are
// missing have their defaults, and all problems are reported at once.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "config.toml")
	text := `
[execution]
timeout = "10s"

[upstream.github]
command = "mcp-server-github"
args = ["--token", "${GITHUB_TOKEN}"]
hide = ["delete_*"]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Load(config.LoadOptions{
		Flag: file,
		Home: func() (string, error) { return dir, nil },
		Getenv: func(name string) (string, bool) {
			value, ok := map[string]string{"GITHUB_TOKEN": "ghp_0123456789"}[name]
			return value, ok
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	github := cfg.Upstreams[0]
	fmt.Println("timeout", cfg.Execution.Timeout, "and", cfg.Execution.MaxCalls, "calls")
	fmt.Println(github.Name, "hides delete_repo:", github.Hides("delete_repo"))
	fmt.Println(cfg.NewMasker().Mask("started with --token ghp_0123456789"))
	// Output:
	// timeout 10s and 1000 calls
	// github hides delete_repo: true
	// started with --token ****
}
