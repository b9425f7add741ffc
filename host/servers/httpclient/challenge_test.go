package httpclient

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func header(lines ...string) http.Header { return http.Header{"Www-Authenticate": lines} }

func TestChallengeParam(t *testing.T) {
	for _, tt := range []struct{ header, want string }{
		{`Bearer scope="a b", resource_metadata="https://x/y"`, "a b"},
		{`Bearer error="invalid_token",error_description="a, scope=\"z\" b" , Scope = "no", scope=one`, "one"},
		{`Basic realm="x=y", Bearer scope=one,realm="z"`, "one"},
		{`Bearer realm="x`, ""}, {`scope="open`, ""}, {`scope="a\`, ""}, {"Bearer", ""}, {"", ""}, {"scope=", ""},
	} {
		if got := ChallengeParam(header("Basic", tt.header), "scope"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.header, got, tt.want)
		}
	}
}

// TestChallenges checks challenges as in RFC 9110 and RFC 9728, and malformed ones that
// servers send.
func TestChallenges(t *testing.T) {
	params := func(p ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(p); i += 2 {
			m[p[i]] = p[i+1]
		}
		return m
	}
	for _, tt := range []struct {
		name  string
		lines []string
		want  []Challenge
	}{
		{"none", nil, nil},
		{"RFC 9110, 11.6.1", []string{`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`},
			[]Challenge{{"basic", params("realm", "simple")}, {"newauth", params("realm", "apps", "type", "1", "title", `Login to "apps"`)}}},
		{"schemes alone", []string{"Negotiate, NTLM ,, Bearer"}, []Challenge{{Scheme: "negotiate"}, {Scheme: "ntlm"}, {Scheme: "bearer"}}},
		{"token68", []string{"Negotiate YII/+a==, Bearer scope=x", "NTLM TlRM"},
			[]Challenge{{Scheme: "negotiate"}, {"bearer", params("scope", "x")}, {Scheme: "ntlm"}}},
		{"names in any case", []string{"BEARER Error=invalid_token"}, []Challenge{{"bearer", params("error", "invalid_token")}}},
		{"spaces around the equals sign", []string{"Bearer scope = \"a b\"\t, error =\tx"}, []Challenge{{"bearer", params("scope", "a b", "error", "x")}}},
		{"no commas", []string{`Bearer error="x" scope="y"`}, []Challenge{{"bearer", params("error", "x", "scope", "y")}}},
		{"a URL without quotes", []string{"Bearer resource_metadata=https://x/y?z=1, scope=a"},
			[]Challenge{{"bearer", params("resource_metadata", "https://x/y?z=1", "scope", "a")}}},
		{"a parameter without a scheme", []string{"scope=a, Bearer scope=b"}, []Challenge{{"bearer", params("scope", "b")}}},
		{"a name in a value", []string{`Bearer realm="scope=a, error=b", scope=c`}, []Challenge{{"bearer", params("realm", "scope=a, error=b", "scope", "c")}}},
		{"a string without an end", []string{`Bearer scope=a, realm="b`, "Basic"}, []Challenge{{"bearer", params("scope", "a")}, {Scheme: "basic"}}},
		{"no token", []string{`Bearer scope=a, (b) error=c`}, []Challenge{{"bearer", params("scope", "a")}}},
	} {
		if got := Challenges(header(tt.lines...)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzChallenges checks that what is parsed of a header is a part of it, and that a
// header written according to RFC 9110 is parsed exactly.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer scope="a b\"", x=y`, "")
	f.Add(`Negotiate a==, b c="d", e`, `x"y\z`)
	f.Fuzz(func(t *testing.T, line, value string) {
		size := 0
		for _, c := range Challenges(header(line)) {
			if c.Scheme == "" || strings.Trim(c.Scheme, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") != "" {
				t.Errorf("scheme %q of %q", c.Scheme, line)
			}
			size += len(c.Scheme)
			for name, v := range c.Params {
				size += len(name) + len("=") + len(v)
			}
		}
		if size > len(line) {
			t.Errorf("%d bytes of %d", size, len(line))
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)
		want := []Challenge{{Scheme: "basic"}, {"bearer", map[string]string{"a": "1", "realm": value, "z": "2"}}}
		if got := Challenges(header(`Basic, Bearer a=1, realm="` + quoted + `", z=2`)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
