package store

import (
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"net/url"
	"strings"
)

// DefaultPrefix begins all names in a store that fleets share, unless they say otherwise.
const DefaultPrefix = "mcp-metatool"

var prefixes = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)

// CheckPrefix returns an error if a prefix cannot be used. The error's text is meant to follow
// the prefix.
func CheckPrefix(prefix string) error {
	if !prefixes.MatchString(prefix) {
		return errors.New("is not 1 to 32 of A-Z a-z 0-9 _ -")
	}
	return nil
}

// CheckServer returns an error if text is not the address of a NATS server. The error does not
// quote text, and is meant to follow what it is about.
func CheckServer(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || strings.ContainsAny(text, ", \t\r\n"):
		return errors.New("is not the address of a NATS server (write nats://HOST:4222, or tls://HOST:4222)")
	case u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss":
		return fmt.Errorf("begins with %.10q, not with nats:// or tls:// (or ws:// or wss://)", u.Scheme+"://")
	case u.User != nil:
		return errors.New("has a user or a password (set user and password, or token)")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a path, which the address of a NATS server does not have (write nats://HOST:4222)")
	}
	return nil
}

// CheckReplicas returns an error if streams cannot be on that many servers. The error's text is
// meant to follow the number.
func CheckReplicas(n int) error {
	if n != 1 && n != 3 && n != 5 {
		return errors.New("is not 1, 3 or 5 (with 3 servers, one can be lost)")
	}
	return nil
}
