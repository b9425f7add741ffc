package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Fate is what becomes of a request that a client makes.
type Fate struct {
	// Answer is what the client hears at once, such as from a server that was the leader; nil
	// is nothing.
	Answer []byte
	// Times is how often the server gets the request: 0 if it is lost.
	Times int
	// Late says that the server gets it only with Release.
	Late bool
	// Mute keeps the answer of the server from the client.
	Mute bool
}

// Passes is the Fate of a request with which nothing is wrong.
var Passes = Fate{Times: 1}

// Interceptor passes connections on to a server, and decides what becomes of each request. It
// reads the protocol (docs.nats.io/reference/nats-protocol), so that it can lose exactly one
// answer, or give another one before. Clients do not learn of other servers of a cluster.
type Interceptor struct {
	proxy  *Proxy // which accepts and closes
	decide func(subject string) Fate
	heard  func(subject string, answer []byte)

	mu      sync.Mutex
	settled sync.Cond // waiting is less, or held is more
	held    []func()
	waiting int // requests whose answer is outstanding
}

// StartInterceptor starts an Interceptor before a server at HOST:PORT. decide is called for each
// request, and heard with what the server answers, also if the client does not hear it; both by
// one goroutine for each connection. It is stopped when the test ends.
func StartInterceptor(t T, target string, decide func(subject string) Fate, heard func(subject string, answer []byte)) *Interceptor {
	t.Helper()
	i := &Interceptor{decide: decide, heard: heard}
	i.settled.L = &i.mu
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i.proxy = &Proxy{listener: l, target: target, open: map[net.Conn]bool{}, serve: i.serve}
	i.proxy.routines.Go(i.proxy.accept)
	t.Cleanup(func() {
		l.Close()
		i.proxy.Cut()
		i.proxy.routines.Wait()
	})
	return i
}

// URL returns the address for clients.
func (i *Interceptor) URL() string { return i.proxy.URL() }

// Release lets the server have what was held, and waits until it has answered every request
// that it has got. A client may have sent a request before that is only read meanwhile.
func (i *Interceptor) Release() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.waiting > 0 {
		held := i.held
		i.held = nil
		if len(held) == 0 {
			i.settled.Wait()
			continue
		}
		i.mu.Unlock()
		for _, send := range held {
			send()
		}
		i.mu.Lock()
	}
}

// intercepted is a connection.
type intercepted struct {
	i              *Interceptor
	client, server net.Conn
	toClient       sync.Mutex // a leaf; whole messages only
	toServer       sync.Mutex // a leaf; whole messages only

	mu       sync.Mutex        // a leaf
	inboxes  map[string]string // the id of a subscription by the beginning of its subject
	requests map[string]*request
}

// request is a request whose answers are outstanding.
type request struct {
	subject string
	left    int
	mute    bool
}

func (i *Interceptor) serve(client, server net.Conn) {
	c := &intercepted{i: i, client: client, server: server, inboxes: map[string]string{}, requests: map[string]*request{}}
	var both sync.WaitGroup
	both.Go(func() { c.copy(client, c.fromClient) })
	both.Go(func() { c.copy(server, c.fromServer) })
	both.Wait()
	c.end()
}

// end notes that no more answers come on the connection.
func (c *intercepted) end() {
	c.mu.Lock()
	left := 0
	for _, r := range c.requests {
		left += r.left
	}
	clear(c.requests)
	c.mu.Unlock()
	c.i.answered(left)
}

// answered notes that n answers are not outstanding any more.
func (i *Interceptor) answered(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.waiting -= n
	i.settled.Broadcast()
}

// copy calls f for each message until the connection ends.
func (c *intercepted) copy(from net.Conn, f func(words []string, message []byte) error) {
	defer c.client.Close()
	defer c.server.Close()
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		words, message := strings.Fields(line), []byte(line)
		switch strings.ToUpper(words[0]) {
		case "PUB", "HPUB", "MSG", "HMSG":
			size, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			message = append(message, body...)
		}
		if f(words, message) != nil {
			return
		}
	}
}

func (c *intercepted) fromClient(words []string, message []byte) error {
	reply := ""
	switch strings.ToUpper(words[0]) {
	case "SUB":
		c.mu.Lock()
		c.inboxes[strings.TrimSuffix(words[1], "*")] = words[len(words)-1]
		c.mu.Unlock()
	case "PUB":
		if len(words) == 4 {
			reply = words[2]
		}
	case "HPUB":
		if len(words) == 5 {
			reply = words[2]
		}
	}
	if reply == "" {
		return c.send(message, 1)
	}
	fate := c.i.decide(words[1])
	send := func() error {
		c.mu.Lock()
		c.requests[reply] = &request{words[1], fate.Times, fate.Mute || fate.Late || fate.Answer != nil}
		c.mu.Unlock()
		err := c.send(message, fate.Times)
		if err != nil {
			c.end()
		}
		return err
	}
	// Before the client hears anything, so that Release knows of it.
	c.i.mu.Lock()
	c.i.waiting += fate.Times
	if fate.Late {
		c.i.held = append(c.i.held, func() { _ = send() })
		c.i.settled.Broadcast()
	}
	c.i.mu.Unlock()
	if fate.Answer != nil {
		if err := c.inject(reply, fate.Answer); err != nil {
			if !fate.Late {
				c.i.answered(fate.Times)
			}
			return err
		}
	}
	if fate.Late || fate.Times == 0 {
		return nil
	}
	return send()
}

func (c *intercepted) send(message []byte, times int) error {
	c.toServer.Lock()
	defer c.toServer.Unlock()
	for range times {
		if _, err := c.server.Write(message); err != nil {
			return err
		}
	}
	return nil
}

// inject gives the client an answer.
func (c *intercepted) inject(reply string, answer []byte) error {
	id := ""
	c.mu.Lock()
	for prefix, subscription := range c.inboxes {
		if strings.HasPrefix(reply, prefix) {
			id = subscription
		}
	}
	c.mu.Unlock()
	c.toClient.Lock()
	defer c.toClient.Unlock()
	_, err := fmt.Fprintf(c.client, "MSG %s %s %d\r\n%s\r\n", reply, id, len(answer), answer)
	return err
}

func (c *intercepted) fromServer(words []string, message []byte) error {
	mute := false
	if name := strings.ToUpper(words[0]); name == "MSG" || name == "HMSG" {
		c.mu.Lock()
		r := c.requests[words[1]]
		if r != nil {
			mute = r.mute
			if r.left--; r.left == 0 {
				delete(c.requests, words[1])
			}
		}
		c.mu.Unlock()
		if r != nil {
			_, body, _ := strings.Cut(string(message), "\r\n")
			c.i.heard(r.subject, []byte(strings.TrimSuffix(body, "\r\n")))
			defer c.i.answered(1)
		}
	}
	if mute {
		return nil
	}
	if strings.EqualFold(words[0], "INFO") {
		var err error
		if message, err = alone(message); err != nil {
			return err
		}
	}
	c.toClient.Lock()
	defer c.toClient.Unlock()
	_, err := c.client.Write(message)
	return err
}

// alone returns what a server says of itself without the addresses of the other servers of its
// cluster: a client that knows them can pass the interceptor by.
func alone(info []byte) ([]byte, error) {
	var says map[string]json.RawMessage
	if err := json.Unmarshal(info[len("INFO "):], &says); err != nil {
		return nil, err
	}
	delete(says, "connect_urls")
	delete(says, "ws_connect_urls")
	text, err := json.Marshal(says)
	return fmt.Appendf(nil, "INFO %s\r\n", text), err
}
