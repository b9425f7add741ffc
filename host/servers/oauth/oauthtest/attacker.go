package oauthtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Attacker is an authorization server that grants every request and records it.
type Attacker struct {
	*httptest.Server
	LoginPage string // the named authorization endpoint; "": an endpoint of the attacker

	mu   sync.Mutex
	seen []string // requests, with their bodies
}

// NewAttacker starts an Attacker.
func NewAttacker(t testing.TB) *Attacker {
	s := &Attacker{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *Attacker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %v %s", r.Method, r.URL, r.Header, body))
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		fmt.Fprint(w, `{"access_token":"stolen","token_type":"Bearer","refresh_token":"stolen"}`)
		return
	}
	page := s.LoginPage
	if page == "" {
		page = s.URL + "/authorize"
	}
	fmt.Fprintf(w, `{"issuer":%[1]q,"authorization_endpoint":%[2]q,"token_endpoint":"%[1]s/token","registration_endpoint":"%[1]s/register",
		"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, s.URL, page)
}

// MustHaveNoSecrets fails the test if the server got a request for anything but metadata.
func (s *Attacker) MustHaveNoSecrets(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		if !strings.HasPrefix(request, "GET /.well-known/") {
			t.Errorf("the attacker got: %s", request)
		}
	}
}

// MustHaveNoRequests fails the test if the server got a request.
func (s *Attacker) MustHaveNoRequests(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.seen {
		t.Errorf("the attacker got: %s", request)
	}
}
