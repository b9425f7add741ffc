package approval

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Subject is everything to which an approval is bound. An approval for a subject is worth nothing
// for another subject. The digests of arguments are made with a key of the store, so that guessed
// arguments cannot be checked against a digest.
type Subject struct {
	Kind       policy.Kind `json:"kind"`
	Target     string      `json:"target"`            // policy.Request.Target
	Arguments  string      `json:"arguments"`         // digest of the bytes, lower-case hex
	Shape      string      `json:"shape"`             // digest of the shape; see shape.go
	Definition string      `json:"definition"`        // pins.Digest of the definition; "" for none
	Version    string      `json:"version,omitempty"` // policy.Request.Version
	Rule       string      `json:"rule"`
	// Client is the name of the client's token. Client is "" for all clients without a token, whose
	// own claims do not tell clients apart.
	Client string `json:"client"`
	Token  bool   `json:"token"` // Client is the name of a token
	// Principal tells apart the credentials of clients whose token has no name; "" otherwise.
	Principal string `json:"principal,omitempty"`
}

// subject returns the subject of a call, and the digest of the whole subject.
func (q *Queue) subject(ctx context.Context, ask route.Asking) (s Subject, digest string, err error) {
	keys, err := q.keys(ctx)
	if err != nil {
		return s, "", err
	}
	r := ask.Request
	if len(r.Name) > maxWhole {
		return s, "", fmt.Errorf("its name is too long to show it to people (%d bytes)", len(r.Name))
	}
	arguments, err := canonical(r.Arguments, true)
	if err != nil {
		return s, "", fmt.Errorf("its arguments cannot be read in one way only: %w", err)
	}
	shape, err := shapeOf(arguments, r.Definition)
	if r.Server == policy.BuiltinTools { // their texts are scripts and plans, and no two are alike
		shape = arguments
	}
	if err != nil {
		return s, "", fmt.Errorf("the shape of its arguments: %w", err)
	}
	s = Subject{
		Kind: r.Kind, Target: r.Target(), Version: r.Version, Rule: ask.Decision.Rule,
		Arguments: keys.digest("values", r.Arguments), Shape: keys.digest("shape", shape),
	}
	if r.Definition != nil {
		s.Definition = pins.Digest(r.Definition)
	}
	if r.Caller.Token {
		s.Client, s.Token = r.Caller.Client, true
	} else {
		s.Principal = r.Caller.Principal
	}
	return s, keys.digest("subject", wire.Marshal(s)), nil
}

// canonical returns a JSON object without white space and needless escapes, with sorted members if
// sorted is set; nil counts as an empty object. A number keeps its digits. canonical fails if a
// name appears twice, because readers differ about which value counts.
func canonical(raw []byte, sorted bool) ([]byte, error) {
	if raw == nil {
		return []byte("{}"), nil
	}
	value := jsontext.Value(append([]byte(nil), raw...))
	err := value.Format(jsontext.ReorderRawObjects(sorted), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowInvalidUTF8(false))
	return value, err
}

// keys are the keys for the digests of a Queue.
type keys struct{ digests []byte }

func newKeys(secret []byte) *keys {
	return &keys{documents.MAC(secret, "mcp-metatool approvals: digests")}
}

// digest returns the keyed digest of a text of some kind, in lower-case hex.
func (k *keys) digest(kind string, text []byte) string {
	return hex.EncodeToString(documents.MAC(k.digests, kind, string(text)))
}
