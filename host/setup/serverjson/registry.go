package serverjson

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// DefaultRegistry is the official registry.
const DefaultRegistry = "https://registry.modelcontextprotocol.io"

// fetchTimeout is how long a request may take.
const fetchTimeout = 30 * time.Second

// maxRedirects is how often a server may send us elsewhere.
const maxRedirects = 5

// ErrNotFound is matched by errors.Is if a registry does not have the server.
var ErrNotFound = errors.New("not found")

// FetchError says why something could not be fetched.
type FetchError struct {
	URL string
	Err error
}

func (e *FetchError) Error() string { return fmt.Sprintf("%s: %v", e.URL, e.Err) }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// Registry is a registry with the API of the official registry, version v0.1.
type Registry struct {
	// URL is the registry's address, without the version: https, or http on this machine.
	URL string
}

// Get returns the document of a server; version "" is the latest. The error is a [*FetchError],
// with [ErrNotFound] for an unknown server or version, or an [*Error].
func (r Registry) Get(ctx context.Context, name, version string) (*Document, error) {
	if version == "" {
		version = "latest"
	}
	data, err := Fetch(ctx, r.endpoint("servers", name, "versions", version))
	if err != nil {
		return nil, err
	}
	d, err := Parse(data)
	if err != nil {
		return nil, err
	}
	if d.Name != name {
		return nil, wrong("name", "is %s, but %s was asked for", quoted(d.Name), quoted(name))
	}
	return d, nil
}

// Search returns the names of at most 20 servers whose names contain a text, sorted. The error is
// as for Get.
func (r Registry) Search(ctx context.Context, text string) ([]string, error) {
	query := url.Values{"search": {text}, "version": {"latest"}, "limit": {"20"}}
	data, err := Fetch(ctx, r.endpoint("servers")+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct {
		Servers []struct {
			Server struct {
				Name string `json:"name"`
			} `json:"server"`
		} `json:"servers"`
	}
	if err := unmarshal(data, &answer); err != nil {
		return nil, err
	}
	var names []string
	for _, s := range answer.Servers {
		if namePattern.MatchString(s.Server.Name) && len(names) < 20 {
			names = append(names, s.Server.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (r Registry) endpoint(parts ...string) string {
	address := strings.TrimRight(r.URL, "/") + "/v0.1"
	for _, p := range parts {
		address += "/" + url.PathEscape(p)
	}
	return address
}

// Fetch reads a document of at most MaxSize bytes from an address: https, or http on this machine.
// Redirects lead to such addresses only. The error is a [*FetchError].
func Fetch(ctx context.Context, address string) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		if at := new(url.Error); errors.As(err, &at) { // the text of the error would repeat the address
			err = at.Err
		}
		return nil, &FetchError{address, err}
	}
	u, err := url.Parse(address)
	if err == nil {
		err = checkScheme(u)
	}
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	transport := httpclient.NewTransport(u.Scheme)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("it redirects too often")
		}
		return checkScheme(req.URL)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fail(ErrNotFound)
	default:
		return fail(fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	}
	data, err := regular.ReadAll(ctx, resp.Body, MaxSize)
	if err != nil {
		return fail(err)
	}
	if !jsontext.Value(data).IsValid() {
		return fail(errors.New("it answered with something that is not JSON"))
	}
	return data, nil
}

// checkScheme refuses addresses without protection against reading and changes on the way.
func checkScheme(u *url.URL) error {
	local := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
	if u.Hostname() == "" || u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return errors.New("only https addresses are read (http on this machine only)")
	}
	return nil
}
