// Command notices writes THIRD_PARTY_NOTICES, the licences of all modules in the binary or in the
// embedded guest, or checks the committed file. scripts/notices runs the command.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

const fileName = "THIRD_PARTY_NOTICES"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	check := len(args) == 1 && args[0] == "check"
	if len(args) > 0 && !check {
		fmt.Fprintln(os.Stderr, "usage: notices [check]")
		return 2
	}
	root, err := moduleRoot(ctx, ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		return 2
	}
	text, err := notices(ctx, root)
	if err == nil && check {
		err = compare(filepath.Join(root, fileName), text)
	} else if err == nil {
		err = os.WriteFile(filepath.Join(root, fileName), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		return 1
	}
	fmt.Printf("%s: %d modules, %d bytes\n", fileName, len(headings(text)), len(text))
	return 0
}

// notices returns the text of THIRD_PARTY_NOTICES for the module at root.
func notices(ctx context.Context, root string) ([]byte, error) {
	modules, err := linked(ctx, root)
	if err != nil {
		return nil, err
	}
	return render(modules)
}

// compare compares a committed file with the wanted text. The error names the modules that are
// missing or no longer linked.
func compare(path string, want []byte) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w (run scripts/notices)", err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	missing, extra := difference(headings(want), headings(got))
	return fmt.Errorf("%s is out of date: missing %q, no longer linked %q (run scripts/notices)",
		fileName, missing, extra)
}

// difference returns the elements only in a and the elements only in b.
func difference(a, b []string) (onlyA, onlyB []string) {
	in := map[string]int{}
	for _, s := range a {
		in[s] |= 1
	}
	for _, s := range b {
		in[s] |= 2
	}
	for _, s := range a {
		if in[s] == 1 {
			onlyA = append(onlyA, s)
		}
	}
	for _, s := range b {
		if in[s] == 2 {
			onlyB = append(onlyB, s)
		}
	}
	return onlyA, onlyB
}

const (
	heavy = "================================================================================"
	light = "--------------------------------------------------------------------------------"
	head  = `Third-party notices of mcp-metatool

The mcp-metatool binary, and the guest module (guest.wasm) that it embeds, link
the following modules, unchanged. Written by scripts/notices: do not edit.
`
)

// render writes the text for the modules, in their order.
func render(modules []*module) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(head)
	for _, m := range modules {
		list, err := licences(m)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "\n%s\n%s\nlinked into: %s\n", heavy, strings.TrimSpace(m.path+" "+m.version), strings.Join(m.parts, ", "))
		for _, l := range list {
			fmt.Fprintf(&out, "%s\n%s", light, l.name)
			if l.kind != "" {
				fmt.Fprintf(&out, " (%s)", l.kind)
			}
			fmt.Fprintf(&out, "\n\n%s\n", tidy(l.text))
		}
	}
	return out.Bytes(), nil
}

// tidy normalises line ends and drops empty lines at both ends of a text.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// headings returns the modules in a text, as "path version".
func headings(text []byte) []string {
	var list []string
	lines := strings.Split(string(text), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line == heavy {
			list = append(list, lines[i+1])
		}
	}
	return list
}
