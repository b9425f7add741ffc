package seal

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// The keys of RFC 8410, section 10: the private key has the public one.
const (
	rfcPrivate = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n"
	rfcPublic  = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
)

func TestKeys(t *testing.T) {
	key, err := ParsePrivate([]byte(rfcPrivate))
	if err != nil || string(key.PEM()) != rfcPrivate || string(key.Public().PEM()) != rfcPublic {
		t.Errorf("%v\n%s%s", err, key.PEM(), key.Public().PEM())
	}
	for _, text := range []string{rfcPublic, "\n" + rfcPublic, key.Public().String(), key.Public().String() + "\n"} {
		if public, err := ParsePublic([]byte(text)); err != nil || public != key.Public() {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "x", rfcPrivate, rfcPublic + rfcPublic, strings.Replace(rfcPublic, "A", "B", 1), "AAAA"} {
		if _, err := ParsePublic([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
	for _, text := range []string{"", "x", rfcPublic, rfcPrivate + "more"} {
		if _, err := ParsePrivate([]byte(text)); err == nil || strings.Contains(err.Error(), "MC4") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if strings.Contains(key.String()+key.GoString(), "MC4") {
		t.Error("the key shows itself")
	}
}

func TestLoadKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var made sync.Map
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			key, err := LoadKey(context.Background(), dir)
			if err != nil {
				t.Error(err)
			}
			made.Store(key.Public(), true)
		})
	}
	all.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d keys", n)
	}
	path := filepath.Join(dir, KeyFile)
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(t.Context(), dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
