package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The longest names, in bytes.
const (
	MaxLogName    = 64
	MaxCollection = 32
	MaxName       = 128 // of a document
)

// LastingPrefix begins the names of logs that are never removed to make room for others: Append
// returns ErrFull instead. Events of all other logs are removed when they are too old or too many.
const LastingPrefix = "durable-"

// IsLasting reports whether a log is one of these.
func IsLasting(log string) bool { return strings.HasPrefix(log, LastingPrefix) }

// CheckLog returns a [*NameError] if a log cannot have that name: 1 to 64 of a-z, 0-9 and "-",
// like the ids of runs.
func CheckLog(name string) error { return checkPlain("log", name, MaxLogName) }

// CheckCollection is CheckLog for collections, whose names have at most 32 of these characters.
func CheckCollection(name string) error { return checkPlain("collection", name, MaxCollection) }

func checkPlain(what, name string, most int) error {
	for _, c := range []byte(name) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return &NameError{what, name, "has other characters than a-z, 0-9 and -"}
		}
	}
	return checkLength(what, name, most)
}

func checkLength(what, name string, most int) error {
	switch {
	case name == "":
		return &NameError{what, name, "is empty"}
	case len(name) > most:
		return &NameError{what, name, fmt.Sprintf("has %d bytes (at most %d)", len(name), most)}
	}
	return nil
}

// Check returns a [*NameError] if a document cannot have that key. Its name is any text of 1
// to 128 bytes of UTF-8.
func (k Key) Check() error {
	if err := CheckCollection(k.Collection); err != nil {
		return err
	}
	if !utf8.ValidString(k.Name) {
		return &NameError{"document", k.Name, "is not UTF-8"}
	}
	return checkLength("document", k.Name, MaxName)
}

// Check returns a [*SizeError] if the event has no data or too much.
func (e *Entry) Check() error { return checkSize("event", len(e.Data), 1, MaxEvent) }

// CheckDocument returns a [*SizeError] if data is too large for a document.
func CheckDocument(data []byte) error { return checkSize("document", len(data), 0, MaxDocument) }

// CheckBlob is CheckDocument for blobs.
func CheckBlob(data []byte) error { return checkSize("blob", len(data), 0, MaxBlob) }

func checkSize(what string, size, least, most int) error {
	if size < least || size > most+Slack {
		return &SizeError{what, size, most}
	}
	return nil
}
