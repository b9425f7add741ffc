package main

import (
	"bytes"
	"fmt"
	"strings"
)

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
