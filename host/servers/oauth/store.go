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

// tokenLockRetry is the interval between attempts to take a lock held by another process.
const tokenLockRetry = 50 * time.Millisecond

// maxTokenFile limits the size of a token file, in bytes.
const maxTokenFile = 16 << 20

// tokenFile is a file of tokens shared by the upstreams of several processes. The file is replaced
// atomically, and only the file's owner may read the file. A process that changes the file holds
// the lock from reading to replacing.
type tokenFile struct{ path string }

// entries is the content of the file, by upstream.
type entries struct {
	Upstreams map[string]credentials `json:"upstreams"`
}

// credentials are the authorization of an upstream. They belong to the issuer and are sent only to
// the issuer's token endpoint; the access token is sent to the upstream.
type credentials struct {
	// Issuer and TokenEndpoint are where the token comes from; "" in files of earlier
	// versions.
	Issuer        string `json:"issuer,omitempty"`
	TokenEndpoint string `json:"token_endpoint,omitempty"`
	// AuthMethod is how a configured client authenticates at TokenEndpoint.
	AuthMethod string `json:"auth_method,omitempty"`
	// Resource is the resource of the token (RFC 8707); "" if unspecified.
	Resource string `json:"resource,omitempty"`
	// Client is the client that was registered for us at Issuer; nil if a client is configured.
	Client *client `json:"client,omitempty"`
	// ClientID is the configured client known to Issuer; "" if Client is set, and in files of
	// earlier versions.
	ClientID string `json:"client_id,omitempty"`
	// Scopes are the scopes that the token was requested with. Wanted are further scopes that the
	// server has required since. The next login asks for both.
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

// lock takes the lock of the file. If ctx ends first, lock returns the cause of ctx.
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
		l.Close() // after a failed Close, the lock ends with the process
		<-local
	}, nil
}

// checkOwner returns an error if other users can change the tokens.
func (f tokenFile) checkOwner() error {
	_, err := owner.Check(filepath.Dir(f.path))
	return err
}

// State is the locally known state of a login.
type State struct {
	Exists    bool      // the state has an access token
	Expires   time.Time // of the access token; zero if unknown
	Renewable bool      // the state has a refresh token
}

// Stored returns the login to the server with a name and URL in a token file.
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

// entry returns the entry of key, or the zero entry if the entry or the file does not exist.
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
