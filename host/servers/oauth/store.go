package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// tokenLockRetry is the interval between attempts to take a lock that another process
// holds.
const tokenLockRetry = 50 * time.Millisecond

// maxTokenFile limits the size of a token file, in bytes.
const maxTokenFile = 16 << 20

// tokenFile is a file of tokens that the upstreams of several processes share.
// It is replaced atomically, and only its owner may read it. Whoever changes it holds
// the lock from reading it to replacing it.
type tokenFile struct{ path string }

// entries is the content of the file, by upstream.
type entries struct {
	Upstreams map[string]credentials `json:"upstreams"`
}

// credentials are the authorization of one upstream. They belong to the issuer and are
// sent only to its token endpoint; the access token is sent to the upstream.
type credentials struct {
	// Issuer and TokenEndpoint are where the token comes from; "" in files of earlier
	// versions.
	Issuer        string `json:"issuer,omitempty"`
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// AuthMethod is how a configured client authenticates at TokenEndpoint.
	AuthMethod string `json:"auth_method,omitempty"`
	// Resource is what the token is for (RFC 8707); "" if it was not specified.
	Resource string `json:"resource,omitempty"`
	// Client is the client that was registered for us at Issuer; nil if one is
	// configured.
	Client *client `json:"client,omitempty"`
	// ClientID is the configured client that Issuer knows; "" if Client is set, and in
	// files of earlier versions.
	ClientID string `json:"client_id,omitempty"`
	// Scopes are those that the token was requested with. Wanted are further ones, which
	// the server has required since. The next login asks for both.
	Scopes []string         `json:"scopes,omitempty"`
	Wanted []string         `json:"wanted_scopes,omitempty"`
	Token  *transport.Token `json:"token,omitempty"`
}

// client is a client known to the authorization server.
type client struct {
	ID         string `json:"id"`
	Secret     string `json:"secret,omitempty"`
	AuthMethod string `json:"auth_method,omitempty"`
}

// tokenLocks has a lock for the goroutines of this process for each file, because file
// locks do not exclude them on every system.
var tokenLocks sync.Map // path -> chan struct{} of capacity 1

// lock takes the lock of the file. If ctx ends first, it returns its cause.
func (f tokenFile) lock(ctx context.Context) (unlock func(), err error) {
	value, _ := tokenLocks.LoadOrStore(f.path, make(chan struct{}, 1))
	local := value.(chan struct{})
	select {
	case local <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err = f.checkOwner(); err == nil {
		err = os.MkdirAll(filepath.Dir(f.path), 0o700)
	}
	l := regular.NewLock(f.path + ".lock")
	if err == nil {
		_, err = l.TryLockContext(ctx, tokenLockRetry)
	}
	if err != nil {
		<-local
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("token file %s cannot be locked: %w", f.path, err)
	}
	return func() {
		l.Close() // if that fails, the lock ends with the process
		<-local
	}, nil
}

// checkOwner returns an error if other users can change the tokens.
func (f tokenFile) checkOwner() error {
	_, err := owner.Check(filepath.Dir(f.path))
	return err
}

// State is what is known about a login without asking anyone.
type State struct {
	Exists    bool      // there is an access token
	Expires   time.Time // of the access token; zero if that is not known
	Renewable bool      // there is a refresh token
}

// Stored returns the login to the server of that name and URL that is in a token file.
func Stored(path, name, url string) (State, error) {
	entry, err := tokenFile{path}.entry(entryKey(name, url))
	if err != nil || entry.Token == nil {
		return State{}, err
	}
	t := entry.Token
	return State{t.AccessToken != "" || t.RefreshToken != "", t.ExpiresAt, t.RefreshToken != ""}, nil
}

// entryKey returns the key of a server.
func entryKey(name, url string) string { return name + " " + url }

// entry returns the entry of key, or the zero entry if it or the file does not exist.
func (f tokenFile) entry(key string) (credentials, error) {
	all, err := f.read()
	return all.Upstreams[key], err
}

func (f tokenFile) read() (entries, error) {
	var all entries
	if err := f.checkOwner(); err != nil {
		return all, fmt.Errorf("token file: %w", err)
	}
	data, err := regular.Read(context.Background(), f.path, maxTokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("token file: %w", err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return all, nil
	}
	if json.Unmarshal(data, &all) != nil { // the error might quote a token
		return all, fmt.Errorf("token file %s is not valid (remove it and authorize again)", f.path)
	}
	return all, nil
}

// put replaces the entry of key. The caller holds the lock.
func (f tokenFile) put(key string, entry credentials) error {
	all, err := f.read()
	if err != nil {
		return err
	}
	if all.Upstreams == nil {
		all.Upstreams = make(map[string]credentials)
	}
	all.Upstreams[key] = entry
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	if err := regular.Write(f.path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("token file %s cannot be written: %w", f.path, err)
	}
	return nil
}
