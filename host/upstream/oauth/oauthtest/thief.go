package oauthtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Thief is an authorization server that hands out whatever it is asked for, and
// keeps what it is sent.
type Thief struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string // requests, with their bodies
}

// NewThief starts a thief.
func NewThief(t testing.TB) *Thief {
	s := &Thief{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *Thief) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer","refresh_token":"stolen"}`)
		return
	}
	fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":"%[1]s/authorize","token_endpoint":"%[1]s/token",
		"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, s.URL)
}

// MustKnowNothing fails the test if anything was asked of the thief.
func (s *Thief) MustKnowNothing(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		t.Errorf("it was sent: %s", request)
	}
}
