package secret

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/servers/process"
)

// CommandSigner signs what runs did with a program that has the key, such as one that asks a key
// management service. It gets the text to sign on its standard input, and writes the Ed25519
// signature to its standard output: 64 bytes, or these in base64. It is stopped, with all that it has
// started, when the time for a signature is over. A CommandSigner is safe for concurrent use.
type CommandSigner struct {
	Words  []string       // the program, and its arguments
	Dir    string         // where it runs
	Public seal.PublicKey // checks what it signs
}

// maxSignature is more than a signature is, in bytes.
const maxSignature = 256

// Sign implements seal.Signer. A signature that is wrong is an error.
func (c *CommandSigner) Sign(ctx context.Context, s seal.Statement) (*seal.Seal, error) {
	made, err := seal.SignWith(s, c.Public, func(text []byte) ([]byte, error) { return c.run(ctx, text) })
	if err == nil && made.Check(s.Run, s.Head, c.Public) != nil {
		err = fmt.Errorf("what sign_command signs does not match sign_public (key %s)", c.Public.ID())
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (c *CommandSigner) run(ctx context.Context, text []byte) ([]byte, error) {
	stdout, stderr := &capped{max: maxSignature}, &capped{max: 8 * maxComplaint}
	cmd := exec.Command(c.Words[0], c.Words[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Dir, bytes.NewReader(text), stdout, stderr, endTime
	err := process.Run(ctx, cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("sign_command was stopped: %w%s", context.Cause(ctx), complaint(stdout, stderr))
	case err != nil:
		return nil, fmt.Errorf("sign_command failed: %w%s", plain(err), complaint(stdout, stderr))
	}
	out := stdout.kept.Bytes()
	if len(out) == ed25519.SignatureSize && !stdout.over {
		return out, nil
	}
	signature, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(out)))
	if err != nil || len(signature) != ed25519.SignatureSize || stdout.over {
		return nil, errors.New("sign_command wrote no Ed25519 signature (want 64 bytes, or these in base64)")
	}
	return signature, nil
}
