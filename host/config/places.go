package config

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// place is where a key and its value are in a text. For a table with a header of its own,
// value is empty.
type place struct{ key, value span }

// places records where the keys of a TOML file are, and the order of the keys in each
// table. The TOML library provides neither for tables in arrays.
type places struct {
	at    map[string]place    // by path, see pathID
	order map[string][]string // the keys of a table, by its path
	known map[string]bool     // paths in order

	table  []string       // path of the table that assignments go to
	arrays map[string]int // how many tables each array of tables has so far
}

// indexKey returns the path element for item i of an array. It is not valid UTF-8, so no
// key can be the same.
func indexKey(i int) string { return "\xff" + strconv.Itoa(i) }

// pathID returns a map key for a path.
func pathID(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return "\xfe" + strings.Join(path, "\xfe") // begins with a separator: the key "" is a path too
}

// findPlaces scans a text that the TOML library accepts. For any other text the result
// may be incomplete or wrong, but the scan ends.
func findPlaces(data string) *places {
	p := &places{
		at: map[string]place{}, order: map[string][]string{}, known: map[string]bool{}, arrays: map[string]int{},
	}
	for _, s := range tomldoc.Scan(data) {
		if s.Kind == tomldoc.Assignment {
			p.assignment(p.table, s)
		} else {
			p.header(s)
		}
	}
	return p
}

// header makes [a.b] or [[a.b]] the table of the next assignments.
func (p *places) header(s tomldoc.Statement) {
	many := s.Kind == tomldoc.ArrayTable
	path := []string{}
	for i, key := range s.Keys {
		path = p.addKey(path, key)
		n := p.arrays[pathID(path)]
		if many && i == len(s.Keys)-1 {
			p.arrays[pathID(path)] = n + 1
			path = append(path, indexKey(n))
			p.put(path, place{key: asSpan(key.Span)})
		} else if n > 0 {
			path = append(path, indexKey(n-1))
		}
	}
	p.table = path
}

// assignment adds key = value to the table at the given path.
func (p *places) assignment(table []string, s tomldoc.Statement) {
	path := append([]string{}, table...)
	for _, key := range s.Keys {
		path = p.addKey(path, key)
	}
	p.value(path, s.Value)
	p.put(path, place{asSpan(s.Keys[len(s.Keys)-1].Span), asSpan(s.Value.Span)})
}

// value adds the keys and items in a value.
func (p *places) value(path []string, v tomldoc.Value) {
	for _, member := range v.Members {
		p.assignment(path, member)
	}
	for i, item := range v.Items {
		at := append(path[:len(path):len(path)], indexKey(i))
		p.value(at, item)
		p.put(at, place{asSpan(item.Span), asSpan(item.Span)})
	}
}

// addKey returns the path of a key in a table, and records the key if it is new.
func (p *places) addKey(table []string, key tomldoc.Key) []string {
	path := append(table[:len(table):len(table)], key.Name)
	if !p.known[pathID(path)] {
		p.known[pathID(path)] = true
		p.order[pathID(table)] = append(p.order[pathID(table)], key.Name)
		p.put(path, place{key: asSpan(key.Span)})
	}
	return path
}

func (p *places) put(path []string, at place) { p.at[pathID(path)] = at }

func asSpan(s tomldoc.Span) span { return span{s.From, s.To} }
