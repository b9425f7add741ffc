package secret

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/zalando/go-keyring"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Service is the name of our entries in the keyring. The names of secrets are their users.
const Service = "mcp-metatool"

// ErrNotFound says that there is no secret of that name in the keyring.
var ErrNotFound = errors.New("there is no such secret in the keyring")

// KeyringError says that the keyring itself cannot be used.
type KeyringError struct{ Err error }

func (e *KeyringError) Error() string {
	remedy := "is it locked, or was access refused?"
	switch {
	case errors.Is(e.Err, keyring.ErrUnsupportedPlatform):
		remedy = "use ${file:PATH} or ${cmd:COMMAND} here"
	case runtime.GOOS != "darwin" && runtime.GOOS != "windows":
		remedy = "it needs a Secret Service on the D-Bus of the session, such as GNOME Keyring, KWallet or KeePassXC; on a machine without one, use ${file:PATH} or ${cmd:COMMAND}"
	}
	return fmt.Sprintf("the keyring cannot be used: %v (%s)", e.Err, remedy)
}

func (e *KeyringError) Unwrap() error { return e.Err }

// turn is taken to use the keyring. The library cannot be interrupted, and may wait for a
// person: a use that was given up keeps its turn until it is over, so that there is never
// more than one that nobody waits for.
var turn = make(chan struct{}, 1)

// inTurn calls use, which returns what is in the keyring. It returns early if ctx ends.
func inTurn(ctx context.Context, use func() (string, error)) (string, error) {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", &KeyringError{context.Cause(ctx)}
	}
	type outcome struct {
		value string
		err   error
	}
	over := make(chan outcome, 1)
	go func() {
		defer func() { <-turn }()
		value, err := use()
		over <- outcome{value, err}
	}()
	select {
	case o := <-over:
		switch {
		case errors.Is(o.err, keyring.ErrNotFound):
			return "", ErrNotFound
		case errors.Is(o.err, keyring.ErrSetDataTooBig):
			return "", errors.New("the value is too large for the keyring (keep it in a file: ${file:PATH})")
		case o.err != nil:
			return "", &KeyringError{o.err}
		}
		return o.value, nil
	case <-ctx.Done():
		return "", &KeyringError{context.Cause(ctx)}
	}
}

// Get returns a secret of the keyring. Errors: ErrNotFound; a [*KeyringError].
func Get(ctx context.Context, name string) (string, error) {
	return inTurn(ctx, func() (string, error) { return keyring.Get(Service, name) })
}

// Set adds a secret to the keyring, or replaces it. Errors: config.ErrSecretName; a
// [*KeyringError].
func Set(ctx context.Context, name, value string) error {
	switch {
	case !config.SecretName.MatchString(name):
		return config.ErrSecretName
	case value == "":
		return errors.New("the value is empty")
	case strings.ContainsRune(value, 0):
		return errors.New("the value has a NUL character")
	case len(value) > maxValue:
		return errors.New("the value is too large for the keyring (keep it in a file: ${file:PATH})")
	}
	_, err := inTurn(ctx, func() (string, error) { return "", keyring.Set(Service, name, value) })
	return err
}

// Remove removes a secret from the keyring. Errors: ErrNotFound; a [*KeyringError].
func Remove(ctx context.Context, name string) error {
	_, err := inTurn(ctx, func() (string, error) { return "", keyring.Delete(Service, name) })
	return err
}

// keyring gets a secret of the keyring.
func (f fetcher) keyring(ctx context.Context, r config.Reference) (string, error) {
	value, err := Get(ctx, r.Text)
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("%w (add it: mcp-metatool secret set %s)", err, r.Text)
	}
	return value, err
}
