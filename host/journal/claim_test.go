package journal

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestClaim checks that one of many gets a claim, until it is given back.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	id := NewID(time.Now())
	var got atomic.Int32
	var all sync.WaitGroup
	logs := make([]*Log, 8)
	for i := range logs {
		logs[i] = OpenLog(dir, LogOptions{})
		defer logs[i].Close()
		all.Go(func() {
			switch err := logs[i].Claim(id); {
			case err == nil:
				got.Add(1)
			case !errors.Is(err, ErrClaimed):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Errorf("%d got the claim", got.Load())
	}
	if err := logs[0].Release(id); err != nil {
		t.Error(err)
	}
	if err := logs[1].Claim(id); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "../x", "a/b", "A"} {
		if err := logs[0].Claim(bad); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	var none *Log
	if none.Claim(id) != nil || none.Release(id) != nil {
		t.Error("without a journal there are no claims")
	}
}

// TestOldClaims checks that claims are removed after a day, and that other processes do
// not see a journal in their folder.
func TestOldClaims(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	l := OpenLog(dir, LogOptions{Now: func() time.Time { return now }})
	defer l.Close()
	old := NewID(now)
	if err := l.Claim(old); err != nil {
		t.Fatal(err)
	}
	now = now.Add(claimAge - time.Minute)
	if err := l.Claim(NewID(now)); err != nil {
		t.Fatal(err)
	}
	if err := l.Claim(old); !errors.Is(err, ErrClaimed) {
		t.Errorf("within a day: %v", err)
	}
	now = now.Add(time.Hour)
	if err := l.Claim(NewID(now)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, claimsDir, old)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a day: %v", err)
	}
	for _, err := range Scan(t.Context(), dir, Filter{}) {
		t.Error(err)
	}
}

// TestClaimFails checks the error if a claim cannot be written.
func TestClaimFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := OpenLog(dir, LogOptions{})
	defer l.Close()
	var failed *WriteError
	if err := l.Claim(NewID(time.Now())); !errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
}
