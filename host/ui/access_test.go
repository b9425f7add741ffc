package ui

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestCodes checks that a code is good once, for a short time, and that its second use
// takes back what the first one gave.
func TestCodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAccess()
		if len(a.Token()) < 26 || !a.allows(a.Token()) || a.allows("") || a.allows(a.Token()[1:]) {
			t.Error("the token")
		}
		one := a.Code()
		if a.allows(one) {
			t.Error("a code is a token")
		}
		token, err := a.exchange(one)
		if err != nil || token == a.Token() || !a.allows(token) {
			t.Fatal(token, err)
		}
		if _, err := a.exchange(one); err != errCodeUsed || a.allows(token) {
			t.Errorf("a second time: %v", err)
		}
		if !a.allows(a.Token()) {
			t.Error("the token of the command is no longer valid")
		}
		late := a.Code()
		time.Sleep(codeLife)
		for _, text := range []string{late, "", "x"} {
			if token, err := a.exchange(text); err != errCode || token != "" {
				t.Errorf("%q: %v", text, err)
			}
		}
		first := a.Code()
		for range maxCodes {
			time.Sleep(time.Millisecond)
			a.Code()
		}
		if _, err := a.exchange(first); err != errCode || len(a.codes) != maxCodes {
			t.Errorf("%d codes are known", len(a.codes))
		}
	})
}

// TestSession checks how the page gets a token for a code, and that other sites do not.
func TestSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := `{"code":"` + b.access.Code() + `"}`
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Host", "evil.example"}, {"Content-Type", "text/plain"},
	} {
		if resp, _ := b.ask(http.MethodPost, "/ui/api/session", body, append(headers, "Authorization", "")...); resp.StatusCode < 400 {
			t.Errorf("%q: %s", headers, resp.Status)
		}
	}
	resp, text := b.ask(http.MethodPost, "/ui/api/session", body, "Authorization", "")
	var got struct{ Token string }
	if err := json.Unmarshal([]byte(text), &got); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Status, text)
	}
	if resp, text := b.ask(http.MethodGet, "/ui/api/state", "", "Authorization", "Bearer "+got.Token); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, text)
	}
	if resp, _ := b.ask(http.MethodPost, "/ui/api/session", body, "Authorization", ""); resp.StatusCode != http.StatusGone {
		t.Errorf("a second time: %s", resp.Status)
	}
	if resp, _ := b.ask(http.MethodGet, "/ui/api/state", "", "Authorization", "Bearer "+got.Token); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the second time: %s", resp.Status)
	}
}
