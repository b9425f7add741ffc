//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// balancer sends each request to a replica at random, as a load balancer without sticky sessions
// does. An unsent request, to a replica that does not listen, goes to another replica. A balancer
// is an [http.RoundTripper].
type balancer struct {
	t    *trial
	http http.RoundTripper
	most atomic.Int32 // so many replicas are used, from the first
}

// stickyHeader names the replica for a request, by index. The header is not sent.
const stickyHeader = "X-Replica"

// lostError says that a request was sent to a replica, and was not answered.
type lostError struct {
	replica *replica
	fault   string // the fault that has ended the replica meanwhile; "" for none
	err     error
}

func (e *lostError) Error() string {
	if e.fault != "" {
		return fmt.Sprintf("lost with %s (%s): %v", e.replica.name, e.fault, e.err)
	}
	return fmt.Sprintf("lost by %s, which lives: %v", e.replica.name, e.err)
}

func (e *lostError) Unwrap() error { return e.err }

func newBalancer(t *trial) *balancer {
	b := &balancer{t: t, http: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	b.most.Store(size)
	return b
}

// patience bounds every wait for an answer.
const patience = time.Minute

// RoundTrip implements [http.RoundTripper].
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	only := -1
	if text := req.Header.Get(stickyHeader); text != "" {
		only, _ = strconv.Atoi(text)
	}
	for deadline := time.Now().Add(patience); ; {
		for _, i := range rand.Perm(len(b.t.fleet.replicas)) {
			r := b.t.fleet.replicas[i]
			if only >= 0 && i != only || only < 0 && i >= int(b.most.Load()) || !r.up() {
				continue
			}
			resp, err := b.send(req, r)
			var refused *net.OpError
			if err != nil && errors.As(err, &refused) && refused.Op == "dial" {
				continue // the request was not sent
			}
			if resp != nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" && only < 0 {
				resp.Body.Close() // the request was not accepted
				b.t.tally.note("a replica does not take requests (503)")
				continue
			}
			return resp, err
		}
		if only >= 0 {
			r := b.t.fleet.replicas[only]
			if fault := r.fate(r.now()); fault != "" {
				return nil, &lostError{r, fault, errors.New("the replica does not run")}
			}
		}
		if time.Now().After(deadline) {
			return nil, errors.New("no replica accepts the request")
		}
		select {
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// send sends a request to r.
func (b *balancer) send(req *http.Request, r *replica) (*http.Response, error) {
	life, pauses := r.now(), r.suspended()
	out := req.Clone(req.Context())
	out.Header.Del(stickyHeader)
	out.URL.Host, out.Host = r.address, ""
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		out.Body = body
	}
	lost := func(err error) error {
		if req.Context().Err() != nil {
			return err
		}
		fault := r.fate(life)
		if fault == "" && r.suspended() != pauses {
			fault = "its replica was suspended" // time limits are over when the replica goes on
		}
		return &lostError{r, fault, err}
	}
	resp, err := b.http.RoundTrip(out)
	if err != nil {
		var refused *net.OpError
		if errors.As(err, &refused) && refused.Op == "dial" {
			return nil, err
		}
		return nil, lost(err)
	}
	resp.Body = &body{resp.Body, lost, resp.Header.Get("Content-Type") == "text/event-stream"}
	return resp, nil
}

// body is the body of a response, with an error for an early end.
type body struct {
	io.ReadCloser
	lost   func(error) error
	events bool // an event stream, whose end may be too early
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var cut *lostError
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = b.lost(err)
	case b.events && errors.As(b.lost(err), &cut) && cut.fault != "": // told to end, and did not manage to answer
		err = cut
	}
	return n, err
}
