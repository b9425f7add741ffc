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
