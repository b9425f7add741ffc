package serverjson

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// document returns a server.json with one package or remote.
func document(key, item string) string {
	return `{"$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
		"name": "io.github.a/weather", "description": "d", "version": "1.0.0", "` + key + `": [` + item + `]}`
}

func pkg(kind, identifier, more string) string {
	if more != "" {
		more = ", " + more
	}
	return document("packages", `{"registryType": "`+kind+`", "identifier": "`+identifier+`", "transport": {"type": "stdio"}`+more+`}`)
}

func remote(kind, url, more string) string {
	if more != "" {
		more = ", " + more
	}
	return document("remotes", `{"type": "`+kind+`", "url": "`+url+`"`+more+`}`)
}

func option(t *testing.T, text string) Option {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d.Options()[0]
}

func TestServer(t *testing.T) {
	for _, tt := range []struct {
		what, text string
		values     map[string][]string
		want       edit.Server
		notes      int
	}{
		{"npm", pkg("npm", "@a/b", `"version": "1.0.2", "registryBaseUrl": "https://registry.npmjs.org"`), nil,
			edit.Server{Command: "npx", Args: []string{"-y", "@a/b@1.0.2"}}, 0},
		{"npm without a version", pkg("npm", "b", `"runtimeHint": "bash"`), nil, edit.Server{Command: "npx", Args: []string{"-y", "b"}}, 2},
		{"pypi", pkg("pypi", "a-b", `"version": "1.0", "runtimeArguments": [{"type": "named", "name": "--from", "value": "x"}]`), nil,
			edit.Server{Command: "uvx", Args: []string{"--from=x", "a-b@1.0"}}, 1},
		{"nuget", pkg("nuget", "A.B", `"version": "0.4.0-beta", "packageArguments": [{"type": "positional", "value": "mcp"}, {"type": "positional", "value": "start"}]`), nil,
			edit.Server{Command: "dnx", Args: []string{"--yes", "A.B@0.4.0-beta", "--", "mcp", "start"}}, 0},
		{"oci", pkg("oci", "ghcr.io/a/b:1", `"runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=bind,src={from},dst={to}", "isRepeated": true, "isRequired": true,
				"variables": {"from": {"isRequired": true, "format": "filepath"}, "to": {"default": "/project"}}}, {"type": "named", "name": "--privileged"}],
			"packageArguments": [{"type": "positional", "valueHint": "dir", "value": "/project"}],
			"environmentVariables": [{"name": "LOG", "default": "info"}, {"name": "KEY", "isSecret": true, "isRequired": true}, {"name": "OPT"}]`),
			map[string][]string{"from": {"/a", "/b"}, "KEY": {"${KEY}"}},
			edit.Server{Command: "docker", Args: []string{"run", "-i", "--rm", "--mount=type=bind,src=/a,dst=/project", "--mount=type=bind,src=/b,dst=/project",
				"--privileged", "-e", "LOG", "-e", "KEY", "ghcr.io/a/b:1", "/project"}, Env: []edit.Setting{{Name: "LOG", Value: "info"}, {Name: "KEY", Value: "${KEY}"}}}, 2},
		{"oci in an older form", pkg("oci", "mcp/files", `"version": "1.0.2", "registryBaseUrl": "https://docker.io", "runtimeHint": "podman",
			"runtimeArguments": [{"type": "positional", "value": "run"}, {"type": "named", "name": "-i"}, {"type": "named", "name": "--rm"}]`), nil,
			edit.Server{Command: "podman", Args: []string{"run", "-i", "--rm", "mcp/files:1.0.2"}}, 0},
		{"oci at a registry", pkg("oci", "a/b", `"registryBaseUrl": "https://ghcr.io"`), nil, edit.Server{Command: "docker", Args: []string{"run", "-i", "--rm", "ghcr.io/a/b"}}, 0},
		{"named and positional", pkg("npm", "b", `"version": "1.0.0", "packageArguments": [
				{"type": "named", "name": "--mode", "default": "local", "choices": ["local", "x"]}, {"type": "named", "name": "-p", "value": "1"},
				{"type": "named", "name": "--left-out", "description": "d"}, {"type": "positional", "valueHint": "dir", "isRequired": true, "isRepeated": true}]`),
			map[string][]string{"dir": {"/a", "/b"}},
			edit.Server{Command: "npx", Args: []string{"-y", "b@1.0.0", "--mode=local", "-p", "1", "/a", "/b"}}, 0},
		{"shell", pkg("npm", "b", `"version": "1.0.0", "packageArguments": [{"type": "positional", "value": "; rm -rf ~ && $(x) `+"`y`"+` | z"}]`), nil,
			edit.Server{Command: "npx", Args: []string{"-y", "b@1.0.0", "; rm -rf ~ && $(x) `y` | z"}}, 0},
		{"variables of ours", pkg("npm", "b", `"version": "1.0.0", "packageArguments": [{"type": "positional", "value": "${HOME} ${cmd:x} $${A}"},
			{"type": "positional", "value": "${HOME} {x}", "variables": {"x": {"default": "${USER}"}}},
			{"type": "positional", "value": "{d}{HOME}", "variables": {"d": {"default": "$"}}},
			{"type": "positional", "value": "{d}{e}", "variables": {"d": {"default": "a$"}, "e": {"default": "{HOME}"}}}]`), nil,
			edit.Server{Command: "npx", Args: []string{"-y", "b@1.0.0", "$${HOME} $${cmd:x} $$${A}", "$${HOME} $${USER}", "$${HOME}", "a$${HOME}"}}, 0},
		{"remote", remote("streamable-http", "https://{tenant}.b/mcp", `"variables": {"tenant": {"isRequired": true}},
			"headers": [{"name": "Authorization", "value": "Bearer {token}", "isRequired": true, "variables": {"token": {"isSecret": true, "isRequired": true}}}, {"name": "X-R", "default": "eu"}, {"name": "x-r", "value": "us"}]`),
			map[string][]string{"tenant": {"t"}, "token": {"${WEATHER_TOKEN}"}},
			edit.Server{Transport: config.StreamableHTTP, URL: "https://t.b/mcp", Headers: []edit.Setting{{Name: "Authorization", Value: "Bearer ${WEATHER_TOKEN}"}, {Name: "X-R", Value: "eu"}}}, 0},
		{"sse", remote("sse", "http://b/sse", ""), nil, edit.Server{Transport: config.LegacySSE, URL: "http://b/sse"}, 1},
		{"a secret address", remote("streamable-http", "{base}/mcp?k={k}", `"variables": {"base": {}, "k": {"isSecret": true}}`),
			map[string][]string{"base": {"https://b"}, "k": {"${K}"}}, edit.Server{Transport: config.StreamableHTTP, URL: "https://b/mcp?k=${K}"}, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			o := option(t, tt.text)
			got, err := o.Server(tt.values)
			if err != nil || !reflect.DeepEqual(normal(got), normal(tt.want)) {
				t.Errorf("%v\n%+v\nwant\n%+v", err, got, tt.want)
			}
			if notes := o.Notes(tt.values); len(notes) != tt.notes {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

// normal returns a server without differences between nil and empty.
func normal(s edit.Server) edit.Server {
	s.Env, s.Headers, s.Args = append([]edit.Setting(nil), s.Env...), append([]edit.Setting(nil), s.Headers...), append([]string(nil), s.Args...)
	return s
}

func TestInputs(t *testing.T) {
	o := option(t, pkg("npm", "b", `"packageArguments": [{"type": "named", "name": "--port", "isRequired": true, "format": "number"},
		{"type": "positional", "value": "{x}-{y}-{z}", "variables": {"x": {"isRequired": true, "choices": ["a", "b"]}, "y": {"value": "fixed"}}}],
		"environmentVariables": [{"name": "KEY", "isSecret": true, "isRequired": true, "description": "d"}, {"name": "FIXED", "value": "1"}]`))
	want := []Input{
		{Name: "port", Kind: "option", Required: true, Format: "number"},
		{Name: "x", Kind: "variable", Required: true, Choices: []string{"a", "b"}},
		{Name: "KEY", Kind: "environment variable", Required: true, Secret: true, Description: "d"},
	}
	got := o.Inputs()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v", got)
	}
	missing := new(MissingError)
	if _, err := o.Server(nil); !errors.As(err, &missing) || len(missing.Inputs) != 3 || err.Error() != "no value for port, x, KEY" {
		t.Error(err)
	}
	for _, tt := range []struct {
		in    Input
		value string
		good  bool
	}{
		{got[0], "80", true}, {got[0], "x", false}, {got[0], "", false}, {got[1], "a", true}, {got[1], "c", false},
		{got[2], "a\nb", false}, {got[2], "a\u202eb", false}, {got[2], "a b", true}, {Input{Format: "boolean"}, "yes", false}, {Input{Format: "boolean"}, "true", true},
	} {
		if err := tt.in.Check(tt.value); (err == nil) != tt.good {
			t.Errorf("%s = %q: %v", tt.in.Name, tt.value, err)
		}
	}
	server, err := o.Server(map[string][]string{"port": {"1"}, "x": {"a"}, "KEY": {"${K}"}})
	if err != nil || server.Args[len(server.Args)-1] != "a-fixed-{z}" {
		t.Errorf("%+v, %v", server, err)
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ text, problem string }{
		{pkg("npm", "-p", ""), "not the name of a package"},
		{pkg("npm", "--registry=https://evil", ""), "not the name of a package"},
		{pkg("npm", "@-a/b", ""), "not the name of a package"},
		{pkg("npm", "git+https://evil/x.git", ""), "not the name of a package"},
		{pkg("npm", "../x", ""), "not the name of a package"},
		{pkg("npm", "a b", ""), "not the name of a package"},
		{pkg("npm", "a@latest", ""), "not the name of a package"},
		{pkg("npm", "a", `"version": "latest"`), "not one version"},
		{pkg("npm", "a", `"version": "1.x"`), "not one version"},
		{pkg("npm", "a", `"version": "^1.0.0"`), "not one version"},
		{pkg("npm", "a", `"version": "npm:evil@1"`), "not one version"},
		{pkg("npm", "a", `"registryBaseUrl": "https://evil"`), "another registry"},
		{pkg("pypi", "a @ https://evil", ""), "not the name of a package"},
		{pkg("pypi", "-r", ""), "not the name of a package"},
		{pkg("oci", "--privileged", ""), "not the name of a package"},
		{pkg("oci", "a/b", `"registryBaseUrl": "--x"`), "not the address of a registry"},
		{pkg("mcpb", "https://a/b.mcpb", ""), "bundle for desktop hosts"},
		{pkg("cargo", "a", ""), "not known"},
		{document("packages", `{"registryType": "npm", "identifier": "a", "transport": {"type": "sse", "url": "http://localhost"}}`), "started first"},
		{document("packages", `{"registry_type": "npm", "identifier": "a"}`), "older schema"},
		{remote("ws", "wss://a", ""), "not known"},
		{pkg("npm", "a", `"environmentVariables": [{"name": "npm_config_registry", "value": "https://evil"}]`), "sets npm_config_registry"},
		{pkg("npm", "a", `"environmentVariables": [{"name": "NODE_OPTIONS"}]`), "sets NODE_OPTIONS"},
		{pkg("pypi", "a", `"environmentVariables": [{"name": "UV_INDEX_URL"}]`), "sets UV_INDEX_URL"},
		{pkg("oci", "a/b", `"environmentVariables": [{"name": "DOCKER_HOST"}]`), "sets DOCKER_HOST"},
		{pkg("oci", "a/b", `"environmentVariables": [{"name": "LD_PRELOAD"}]`), "sets LD_PRELOAD"},
		{pkg("oci", "a/b", `"environmentVariables": [{"name": "Path"}]`), "sets Path"},
	} {
		o := option(t, tt.text)
		if !strings.Contains(o.Problem, tt.problem) {
			t.Errorf("%s: %q does not say %q", tt.text, o.Problem, tt.problem)
		}
		if s, err := o.Server(nil); err == nil {
			t.Errorf("%s becomes %+v", tt.text, s)
		}
	}
	for _, text := range []string{
		remote("sse", "file:///etc/passwd", ""), remote("sse", "https://a/#x", ""), remote("sse", "https://a/{x}", ""), remote("sse", "javascript:1", ""),
		remote("sse", "https://", ""),
	} {
		o := option(t, text)
		if s, err := o.Server(nil); err == nil {
			t.Errorf("%s becomes %+v", text, s)
		}
	}
	o := option(t, remote("sse", "https://a", `"headers": [{"name": "A", "value": "Bearer ${t}", "variables": {"t": {"isSecret": true}}}]`))
	if s, err := o.Server(map[string][]string{"t": {"${T}"}}); err == nil {
		t.Errorf("a $ before a variable becomes %+v", s)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{`{`, "not"}, {`[]`, "wrong type"}, {`{}`, "name"}, {`{"name": "x"}`, "not the name of a server"},
		{`{"name": "a/b", "name": "a/c"}`, "twice"}, {`{"name": 1}`, "wrong type"}, {`{"name": "a/b"} x`, "not valid"},
		{pkg("npm", "a\\u001b[2J", ""), "control character"},
		{`{"name": "a/b", "version": "1\nx"}`, "version contains a control"},
		{`{"name": "a/b", "title": "\u202e"}`, "title contains a control"},
		{`{"name": "a/b", "repository": {"url": "https://a\nb"}}`, "repository.url contains a control"},
		{`{"name": "a/b", "version": "` + strings.Repeat("1", maxShort+1) + `"}`, "version is longer"},
		{pkg("npm", "a", `"version": "1\u202e0"`), "control character"},
		{pkg("npm", "a", `"packageArguments": [{"type": "positional", "value": "a\u0000b"}]`), "control character"},
		{pkg("npm", "a", `"packageArguments": [{"type": "positional", "value": "a\nb"}]`), "control character"},
		{pkg("npm", "a", `"packageArguments": [{"type": "odd"}]`), "type"},
		{pkg("npm", "a", `"packageArguments": [{"type": "named", "name": "--a b"}]`), "not the name of an option"},
		{pkg("npm", "a", `"environmentVariables": [{"name": "A=B"}]`), "name of a variable"},
		{pkg("npm", "a", `"environmentVariables": [{"name": "A", "value": "`+strings.Repeat("x", maxText+1)+`"}]`), "longer"},
		{remote("sse", "https://a", `"headers": [{"name": "A: b\r\nC"}]`), "the name of a header"},
		{document("packages", strings.Repeat(`{},`, maxItems)+`{}`), "more than"},
		{strings.Repeat(" ", MaxSize+1), "larger"},
		{strings.Repeat("[", 100000), "wrong type"},
	} {
		_, err := Parse([]byte(tt.text))
		if at := new(Error); !errors.As(err, &at) || !strings.Contains(err.Error(), tt.says) || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%.100q: %v", tt.text, err)
		}
	}
}

func TestRuntimeArguments(t *testing.T) {
	positional := func(words ...string) string {
		var list []string
		for _, w := range words {
			list = append(list, `{"type": "positional", "value": "`+w+`"}`)
		}
		return strings.Join(list, ", ")
	}
	named := func(name, value string) string {
		return `{"type": "named", "name": "` + name + `", "value": "` + value + `"}`
	}
	for _, tt := range []struct{ kind, arguments, problem string }{
		{"npm", positional("evil-pkg"), "would run that instead"},
		{"npm", positional("-y", "evil-pkg"), "would run that instead"},
		{"npm", named("-y", "evil-pkg"), "would run that instead"},
		{"npm", named("--registry", "https://evil"), `the option "--registry"`},
		{"npm", positional("--registry=https://evil"), `the option "--registry"`},
		{"npm", named("--@a:registry", "https://evil"), `the option "--@a:registry"`},
		{"npm", named("-c", "sh"), `the option "-c"`},
		{"npm", named("--node-options", "--require=x"), `the option "--node-options"`},
		{"npm", named("--package", "https://evil/x.tgz"), "only names"},
		{"npm", positional("--package"), "no value"},
		{"npm", positional("--loglevel"), "no value"},
		{"npm", positional("--"), `the option "--"`},
		{"npm", named("--package", "b@1.0.0"), ""},
		{"npm", positional("-y", "-p", "@a/b"), ""},
		{"pypi", positional("evil"), "would run that instead"},
		{"pypi", named("--index-url", "https://evil"), "the option"},
		{"pypi", named("--from", "git+https://evil/x"), "only names"},
		{"pypi", named("--with-editable", "/x"), "the option"},
		{"pypi", named("--python", "/tmp/x"), "only names"},
		{"pypi", positional("--from", "a[cli]==1.0", "-p", "3.12"), ""},
		{"nuget", positional("evil"), "would run that instead"},
		{"nuget", named("--source", "https://evil"), "the option"},
		{"nuget", named("--prerelease", ""), ""},
		{"oci", positional("run", "evil/image"), "would run that instead"},
		{"oci", positional("--no-hostname", "evil/image"), "the option"},
		{"oci", positional("-vit", "evil/image"), "the option"},
		{"oci", positional("--name"), "no value"},
		{"oci", positional("run", "-v", "/a:/b", "-it", "--name=x", "--oom-score-adj=5"), ""},
	} {
		o := option(t, pkg(tt.kind, "a", `"version": "1.0.0", "runtimeArguments": [`+tt.arguments+`]`))
		s, err := o.Server(nil)
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s %s becomes %+v, %v", tt.kind, tt.arguments, s, err)
		}
	}
	for _, words := range [][]string{{"--volume=/:/x"}, {"-v", "/:/x"}, {"run", "--rm", "--privileged"}} {
		o := option(t, pkg("oci", "a", `"version": "1.0.0", "runtimeArguments": [`+positional(words...)+`]`))
		if notes := o.Notes(nil); len(notes) != 1 {
			t.Errorf("%q has the notes %q", words, notes)
		}
	}
}

// FuzzParse makes servers of documents. A configuration with the server has exactly the words
// of the document: no variable of ours is in it.
func FuzzParse(f *testing.F) {
	f.Add(pkg("npm", "@a/b", `"version": "1.0.2", "packageArguments": [{"type": "positional", "value": "${A}{x}$", "variables": {"x": {"default": "${B}"}}}]`))
	f.Add(pkg("oci", "a/b", `"environmentVariables": [{"name": "A", "value": "${HOME}"}]`))
	f.Add(remote("sse", "https://a/{x}", `"variables": {"x": {"default": "$"}}, "headers": [{"name": "X", "value": "{x}{HOME}", "variables": {"x": {"default": "$"}}}]`))
	f.Add(`{"server": ` + pkg("pypi", "x", "") + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, o := range d.Options() {
			values := map[string][]string{}
			for _, in := range o.Inputs() {
				if in.Required && in.Default == "" {
					values[in.Name] = []string{"v"}
				}
			}
			s, err := o.Server(values)
			if err != nil {
				continue
			}
			for _, arg := range s.Args {
				if strings.ContainsFunc(arg, func(r rune) bool { return r < ' ' }) {
					t.Errorf("%q has the argument %q", text, arg)
				}
			}
			checkConfigured(t, s)
		}
	})
}

// checkConfigured checks that loading a configuration with the server asks for no variable.
func checkConfigured(t *testing.T, s edit.Server) {
	t.Helper()
	file := edit.New("c.toml", nil)
	if err := file.Put("x", s); err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	getenv := func(name string) (string, bool) {
		if name == config.EnvDir {
			return t.TempDir(), true
		}
		if !strings.HasPrefix(name, "MCP_METATOOL_") {
			t.Errorf("%+v is configured as %s, which reads %s", s, file.Text(), name)
		}
		return "", false
	}
	_, _, _ = config.Parse(config.LoadOptions{Getenv: getenv}, file.Path(), file.Text()) // other problems, such as reserved headers, are allowed
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRegistry(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/v0.1/servers/io.github.a%2Fweather/versions/latest":
			_, _ = w.Write([]byte(`{"server": ` + pkg("npm", "a", "") + `, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated", "statusMessage": "old"}}}`))
		case "/v0.1/servers/io.github.a%2Fother/versions/1.0":
			_, _ = w.Write([]byte(pkg("npm", "a", "")))
		case "/v0.1/servers":
			if r.URL.Query().Get("search") == "weather" && r.URL.Query().Get("version") == "latest" {
				_, _ = w.Write([]byte(`{"servers": [{"server": {"name": "b/weather"}}, {"server": {"name": "\u001b"}}, {"server": {"name": "a/weather"}}], "metadata": {}}`))
			}
		case "/v0.1/servers/a%2Flarge/versions/latest":
			_, _ = w.Write([]byte(strings.Repeat(" ", MaxSize+1)))
		case "/v0.1/servers/a%2Fhtml/versions/latest":
			_, _ = w.Write([]byte("<html>"))
		case "/v0.1/servers/a%2Faway/versions/latest":
			http.Redirect(w, r, "http://example.com/x", http.StatusFound)
		case "/v0.1/servers/a%2Floop/versions/latest":
			http.Redirect(w, r, r.URL.EscapedPath(), http.StatusFound)
		case "/v0.1/servers/a%2Fbroken/versions/latest":
			w.WriteHeader(http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	r := Registry{server.URL + "/"}
	d, err := r.Get(t.Context(), "io.github.a/weather", "")
	if err != nil || d.Name != "io.github.a/weather" || d.Status != "deprecated" || d.StatusMessage != "old" {
		t.Errorf("%+v, %v", d, err)
	}
	if names, err := r.Search(t.Context(), "weather"); err != nil || !reflect.DeepEqual(names, []string{"a/weather", "b/weather"}) {
		t.Errorf("%q, %v", names, err)
	}
	for name, says := range map[string]string{
		"a/none": "not found", "a/large": "larger", "a/html": "not JSON", "a/away": "only https", "a/loop": "too often", "a/broken": "502",
	} {
		_, err := r.Get(t.Context(), name, "")
		if at := new(FetchError); !errors.As(err, &at) || !strings.Contains(err.Error(), says) || errors.Is(err, ErrNotFound) != (name == "a/none") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Get(t.Context(), "io.github.a/other", "1.0"); err == nil || !strings.Contains(err.Error(), "was asked for") {
		t.Error(err)
	}
	for _, address := range []string{"http://example.com", "ftp://localhost/x", "file:///etc/passwd", "", "https://", ":"} {
		if _, err := Fetch(t.Context(), address); err == nil {
			t.Errorf("%s is fetched", address)
		}
	}
}
