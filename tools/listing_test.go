package tools

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCurrent checks which changes of the directory make a listing outdated.
func TestCurrent(t *testing.T) {
	coarse := time.Now().Add(-time.Hour).Truncate(time.Second)
	old := coarse.Add(123456700 * time.Nanosecond)
	for name, tt := range map[string]struct {
		change func(t *testing.T, dir string)
		want   bool
	}{
		"nothing": {func(*testing.T, string) {}, true},
		"a tool is added": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "b.json"))
		}, false},
		"a tool is deleted": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "a.json")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a tool is replaced": {func(t *testing.T, dir string) {
			other := filepath.Join(t.TempDir(), "a.json")
			write(t, other)
			if err := os.Rename(other, filepath.Join(dir, "a.json")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"a tool is changed in place": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.json")) }, true},
		"the directory is another one": {func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(dir, old, old); err != nil {
				t.Fatal(err)
			}
		}, false},
		"the file system has coarse times": {func(t *testing.T, dir string) {
			if err := os.Chtimes(dir, coarse, coarse); err != nil {
				t.Fatal(err)
			}
		}, false},
		"the directory is gone": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := OpenStore(t.TempDir(), StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			write(t, filepath.Join(s.Dir(), "a.json"))
			if _, l := s.Listed(); s.Current(l) {
				t.Error("a directory that has just changed is certainly the same")
			}
			if err := os.Chtimes(s.Dir(), old, old); err != nil {
				t.Fatal(err)
			}
			_, l := s.Listed()
			tt.change(t, s.Dir())
			if got := s.Current(l); got != tt.want {
				t.Errorf("got %t", got)
			}
			if s.Current(Listing{}) {
				t.Error("the zero listing is current")
			}
			if err := os.Chtimes(s.Dir(), coarse, coarse); err != nil {
				return // it is gone
			}
			if _, l = s.Listed(); s.Current(l) {
				t.Error("a coarse time proves something")
			}
		})
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSettled checks how old a time must be, depending on the steps in which the file
// system counts.
func TestSettled(t *testing.T) {
	whole := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	for _, tt := range []struct {
		modified time.Time
		age      time.Duration
		want     bool
	}{
		{whole, time.Second, false},
		{whole, 2 * time.Second, false},
		{whole, 2*time.Second + 1, true},
		{whole.Add(30 * time.Millisecond), time.Second, false}, // exFAT
		{whole.Add(4 * time.Millisecond), 100 * time.Millisecond, false},
		{whole.Add(4 * time.Millisecond), 100*time.Millisecond + 1, true},
		{whole.Add(123456789), 200 * time.Millisecond, true},
		{whole.Add(123456789), -time.Second, false},
	} {
		if got := settled(tt.modified, tt.modified.Add(tt.age)); got != tt.want {
			t.Errorf("%v, %v old: %t", tt.modified, tt.age, got)
		}
	}
}

// TestSameListing checks which changes of the directory make its list another one.
func TestSameListing(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(dir, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := func(name string) string { return filepath.Join(dir, "tools", name+".json") }
	save := func(name, code string) {
		t.Helper()
		if _, _, err := s.Save(Definition{Name: name, Code: code, InputSchema: []byte(`{"type":"object"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	save("a", "return 1")
	data, err := os.ReadFile(file("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		change func() error
		same   bool
	}{
		{"nothing", func() error { return nil }, true},
		{"a file is written again", func() error { return os.WriteFile(file("a"), data, 0o600) }, true},
		{"a tool is changed in place", func() error { return os.WriteFile(file("a"), append([]byte(" "), data...), 0o600) }, false},
		{"a tool is added", func() error { save("b", "return 2"); return nil }, false},
		{"a file is broken", func() error { return os.WriteFile(file("b"), []byte("{"), 0o600) }, false},
		{"a tool is deleted", func() error { return os.Remove(file("a")) }, false},
		{"the directory is gone", func() error { return os.RemoveAll(filepath.Join(dir, "tools")) }, false},
	} {
		before := s.Look()
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if now := s.Look(); now.Same(before) != step.same {
			t.Errorf("%s: the list is the same: %t", step.name, !step.same)
		}
	}
	if (Listing{}).Same(Listing{}) {
		t.Error("a directory that cannot be read has the same list as before")
	}
}
