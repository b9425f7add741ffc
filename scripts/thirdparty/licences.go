package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licence is a file of a module that has to be distributed with the binary.
type licence struct {
	name string // path in the module
	text string
	kind string // "" for notices and the like
}

var (
	licenceName = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([._-].*)?$`)
	notLicence  = regexp.MustCompile(`(?i)\.(go|py|sh|json|ya?ml|tmpl)$`)
	extra       = regexp.MustCompile(`(?i)^(notice|patents|copyright)`)
)

// kinds are licences that allow linking into a binary under Apache-2.0, each recognised by a
// sentence of the text. The first match counts.
var kinds = []struct{ name, sentence string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived from this software"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
}

// kind returns the name of the licence in a text; "" for an unknown licence.
func kind(text string) string {
	words := strings.Join(strings.Fields(text), " ")
	for _, k := range kinds {
		if strings.Contains(words, k.sentence) {
			return k.name
		}
	}
	return ""
}

// licences reads the licence files of a module: in the directories of the linked packages and in
// the directories above, up to the module's own. A missing licence or an unknown kind is an error.
func licences(m *module) ([]licence, error) {
	var names []string
	for _, dir := range m.dirs {
		for {
			found, err := licenceFiles(m.dir, dir)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
			if dir == m.dir || len(dir) <= len(m.dir) {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	slices.Sort(names)
	var list []licence
	known := false
	for _, name := range slices.Compact(names) {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			return nil, err
		}
		l := licence{name: filepath.ToSlash(name), text: string(text), kind: kind(string(text))}
		if l.kind == "" && !extra.MatchString(filepath.Base(name)) {
			return nil, fmt.Errorf("%s: %s is of an unknown kind (read it; if it allows linking, add it to kinds)", m.path, name)
		}
		known = known || l.kind != ""
		list = append(list, l)
	}
	if !known {
		return nil, fmt.Errorf("%s has no licence file in %s (without a licence it may not be linked)", m.path, m.dir)
	}
	return list, nil
}

// licenceFiles returns the licence files in dir, as paths relative to root.
func licenceFiles(root, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceName.MatchString(e.Name()) || notLicence.MatchString(e.Name()) {
			continue
		}
		name, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
