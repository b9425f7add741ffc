package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

// rechain makes the digests of a record of one run consistent again, like a person who has changed
// the record without having the key. The seal stays as it is.
func rechain(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	prev := regexp.MustCompile(`,"prev":"[0-9a-f]{64}"`)
	var out bytes.Buffer
	var head seal.Digest
	for i, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		p, err := seal.Cut(line)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		body := bytes.TrimSuffix(prev.ReplaceAll(p.Body, nil), []byte("}"))
		if i > 0 {
			body = fmt.Appendf(body, `,"prev":"%s"`, head)
		}
		head = seal.Event(append(bytes.Clone(body), '}'))
		if p.Seal != nil {
			body = seal.AppendSeal(body, p.Seal)
		}
		out.Write(append(body, "}\n"...))
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// opensign is a program that signs what it reads with the key in a file: it stands for one that asks a
// key management service.
func opensign(path string) int {
	text, err := io.ReadAll(os.Stdin)
	if err != nil || !bytes.HasPrefix(text, []byte(seal.StatementTitle+"\n")) {
		fmt.Fprintln(os.Stderr, "no statement")
		return 1
	}
	key, err := seal.ReadKey(context.Background(), path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Stdout.Write(key.SignText(text))
	return 0
}
