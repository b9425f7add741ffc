package secret

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// signerMode is the variable that makes this binary a program that signs.
const signerMode = "TEST_SIGNER"

var signerKey = seal.FromSeed([]byte(strings.Repeat("s", 32)))

// signIfAsked is what TestMain does first: it is the program that signs.
func signIfAsked() {
	mode := os.Getenv(signerMode)
	if mode == "" {
		return
	}
	text, _ := io.ReadAll(os.Stdin)
	signature := signerKey.SignText(text)
	switch mode {
	case "raw":
		os.Stdout.Write(signature)
	case "base64":
		os.Stdout.WriteString(base64.StdEncoding.EncodeToString(signature) + "\n")
	case "other":
		os.Stdout.Write(seal.NewPrivate().SignText(text))
	case "short":
		os.Stdout.Write(signature[:63])
	case "long":
		os.Stdout.WriteString(strings.Repeat("A", 1<<20))
	case "fail":
		os.Stderr.WriteString("no token in the slot")
		os.Exit(3)
	case "hang":
		time.Sleep(time.Hour) // until it is killed
	}
	os.Exit(0)
}

func TestCommandSigner(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	signer := &CommandSigner{Words: []string{self}, Dir: t.TempDir(), Public: signerKey.Public()}
	statement := seal.Statement{Run: "a", Head: seal.Event([]byte("x")), Events: 1, Outcome: "ok", Time: time.Now()}
	for mode, want := range map[string]string{
		"raw": "", "base64": "", "other": "does not match sign_public", "short": "no Ed25519 signature", "long": "no Ed25519 signature",
		"fail": "no token in the slot", "hang": "sign_command was stopped: enough",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv(signerMode, mode)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if mode == "hang" {
				cancelled := time.AfterFunc(testenv.Quiet(100*time.Millisecond), func() { cancel(errors.New("enough")) })
				defer cancelled.Stop()
			}
			made, err := signer.Sign(ctx, statement)
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want == "":
				if err := made.Check("a", statement.Head, signerKey.Public()); err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), want):
				t.Errorf("%v", err)
			}
		})
	}
}
