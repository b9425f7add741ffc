package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// deployFile returns a file of docs/deploy.
func deployFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tree is a YAML mapping.
type tree = map[string]any

// at returns what is under a path of keys and indices, nil if there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(tree)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}

// kubernetesFields are the fields of the Kubernetes API (v1, apps/v1, policy/v1,
// networking.k8s.io/v1) that the manifest may have below each field; "*" is any name, and
// items of lists count as what the list is.
var kubernetesFields = map[string]string{
	"":                          "apiVersion kind metadata spec data",
	"metadata":                  "name namespace labels",
	"data":                      "*",
	"labels":                    "*",
	"matchLabels":               "*",
	"selector":                  "matchLabels app",
	"podSelector":               "matchLabels",
	"labelSelector":             "matchLabels",
	"template":                  "metadata spec",
	"containers":                "name image args env ports startupProbe livenessProbe readinessProbe lifecycle resources securityContext volumeMounts",
	"env":                       "name value valueFrom",
	"valueFrom":                 "secretKeyRef fieldRef",
	"secretKeyRef":              "name key",
	"fieldRef":                  "fieldPath",
	"ports":                     "name containerPort port targetPort",
	"startupProbe":              "httpGet periodSeconds timeoutSeconds failureThreshold",
	"livenessProbe":             "httpGet periodSeconds timeoutSeconds failureThreshold",
	"readinessProbe":            "httpGet periodSeconds timeoutSeconds failureThreshold",
	"httpGet":                   "path port",
	"lifecycle":                 "preStop",
	"preStop":                   "exec",
	"exec":                      "command",
	"resources":                 "requests limits",
	"requests":                  "cpu memory storage",
	"limits":                    "cpu memory",
	"securityContext":           "runAsNonRoot runAsUser runAsGroup fsGroup seccompProfile allowPrivilegeEscalation readOnlyRootFilesystem capabilities",
	"seccompProfile":            "type",
	"capabilities":              "drop",
	"volumeMounts":              "name mountPath readOnly",
	"volumes":                   "name emptyDir configMap secret",
	"emptyDir":                  "",
	"configMap":                 "name",
	"secret":                    "secretName defaultMode items",
	"items":                     "key path",
	"volumeClaimTemplates":      "metadata spec",
	"topologySpreadConstraints": "maxSkew topologyKey whenUnsatisfiable labelSelector",
	"affinity":                  "podAntiAffinity",
	"podAntiAffinity":           "requiredDuringSchedulingIgnoredDuringExecution",
	"requiredDuringSchedulingIgnoredDuringExecution": "topologyKey labelSelector",
	"ingress": "from ports",
	"from":    "podSelector",
	"spec": "serviceName replicas podManagementPolicy selector template terminationGracePeriodSeconds automountServiceAccountToken securityContext " +
		"topologySpreadConstraints affinity containers volumes volumeClaimTemplates accessModes resources maxUnavailable ports clusterIP " +
		"publishNotReadyAddresses podSelector policyTypes ingress",
}

// checkFields finds unknown fields.
func checkFields(v any, within string) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := checkFields(item, within); err != nil {
				return err
			}
		}
	case tree:
		known, ok := kubernetesFields[within]
		if !ok {
			return fmt.Errorf("%s has fields", within)
		}
		for name, value := range v {
			if known != "*" && !slices.Contains(strings.Fields(known), name) {
				return fmt.Errorf("%q has the unknown field %q", within, name)
			}
			if known == "*" {
				if _, is := value.(string); !is {
					return fmt.Errorf("%s.%s is %T, not a string", within, name, value)
				}
				continue
			}
			if err := checkFields(value, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// useConfig loads a configuration of a deployment, in which a path is replaced.
func useConfig(t *testing.T, text, keys string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	if err := os.WriteFile(file, []byte(fleetKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, keys) {
		t.Fatalf("the configuration does not name %s:\n%s", keys, text)
	}
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, keys, filepath.ToSlash(file))), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Flag: path})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Store.Replicas != 3 || len(cfg.Store.NATS) != 3 || len(cfg.Store.Keys) != 1 || !strings.HasPrefix(cfg.Store.PeerListen, ":") && !strings.HasPrefix(cfg.Store.PeerListen, "0.0.0.0:") || len(cfg.HTTP.Tokens) == 0 {
		t.Errorf("%+v", cfg.Store)
	}
	return cfg
}

// deployedCommand checks that a command is one of ours with flags that exist, and returns the
// time that it waits, if it has --wait.
func deployedCommand(t *testing.T, args []any) time.Duration {
	t.Helper()
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = fmt.Sprint(a)
	}
	cmd, rest, err := newRoot().Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	if f := cmd.Flags().Lookup("wait"); f != nil {
		wait, err := time.ParseDuration(f.Value.String())
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	return 0
}

// checkNATS checks a configuration of NATS for what a fleet needs. scripts/natsserver has the test that
// gives it to the real server.
func checkNATS(t *testing.T, text string) {
	t.Helper()
	_, routes, _ := strings.Cut(text, "routes: [")
	routes, _, _ = strings.Cut(routes, "]")
	if !strings.Contains(text, "jetstream {store_dir: /data") || !strings.Contains(text, "authorization {user: metatool, password: $NATS_PASSWORD}") ||
		len(strings.Split(routes, ", ")) != 3 || !strings.Contains(text, "name: metatool") {
		t.Errorf("NATS: %s", text)
	}
}

func deployEnv(t *testing.T) {
	t.Helper()
	t.Setenv("NATS_PASSWORD", "a-password-of-nats")
	t.Setenv("MCP_TOKEN", "a-token-of-clients-of-mcp")
	t.Setenv("POD_NAME", "nats-0")
}

// TestKubernetes checks the manifests: their fields, what refers to what, and that the real
// program takes its configuration and commands.
func TestKubernetes(t *testing.T) {
	deployEnv(t)
	objects := map[string]tree{}
	for dec := yaml.NewDecoder(bytes.NewReader(deployFile(t, "kubernetes.yaml"))); ; {
		var o tree
		err := dec.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := checkFields(o, ""); err != nil {
			t.Errorf("%v %v: %v", o["kind"], at(o, "metadata", "name"), err)
		}
		if at(o, "metadata", "namespace") != "metatool" {
			t.Errorf("%v is in another namespace", at(o, "metadata", "name"))
		}
		objects[fmt.Sprint(o["apiVersion"], " ", o["kind"], " ", at(o, "metadata", "name"))] = o
	}
	for _, name := range []string{"metatool", "nats"} {
		set := objects["apps/v1 StatefulSet "+name]
		pod := at(set, "spec", "template", "spec")
		if at(set, "spec", "replicas") != 3 || at(objects["policy/v1 PodDisruptionBudget "+name], "spec", "maxUnavailable") != 1 {
			t.Errorf("%s: not three, or no budget for disruptions", name)
		}
		for _, where := range []any{at(set, "spec", "selector", "matchLabels", "app"), at(set, "spec", "template", "metadata", "labels", "app"),
			at(objects["v1 Service "+name], "spec", "selector", "app"), at(objects["policy/v1 PodDisruptionBudget "+name], "spec", "selector", "matchLabels", "app"),
			at(objects["networking.k8s.io/v1 NetworkPolicy "+name], "spec", "podSelector", "matchLabels", "app")} {
			if where != name {
				t.Errorf("%s: a selector is %v", name, where)
			}
		}
		if service := at(set, "spec", "serviceName"); objects[fmt.Sprint("v1 Service ", service)] == nil {
			t.Errorf("%s: there is no service %v", name, service)
		}
		container := at(pod, "containers", 0)
		ports, volumes := map[any]bool{}, map[any]bool{}
		for _, p := range list(at(container, "ports")) {
			ports[at(p, "name")] = true
		}
		for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			if port := at(container, probe, "httpGet", "port"); !ports[port] {
				t.Errorf("%s: %s of the port %v", name, probe, port)
			}
		}
		for _, v := range slices.Concat(list(at(pod, "volumes")), list(at(set, "spec", "volumeClaimTemplates"))) {
			if claim := at(v, "metadata", "name"); claim != nil {
				volumes[claim] = true
			}
			volumes[at(v, "name")] = true
			if c := at(v, "configMap", "name"); c != nil && objects[fmt.Sprint("v1 ConfigMap ", c)] == nil {
				t.Errorf("%s: there is no ConfigMap %v", name, c)
			}
		}
		for _, m := range list(at(container, "volumeMounts")) {
			if !volumes[at(m, "name")] {
				t.Errorf("%s: there is no volume %v", name, at(m, "name"))
			}
		}
	}
	pod := at(objects["apps/v1 StatefulSet metatool"], "spec", "template", "spec")
	container := at(pod, "containers", 0)
	if at(container, "livenessProbe", "httpGet", "path") != "/healthz" || at(container, "readinessProbe", "httpGet", "path") != "/readyz" {
		t.Error("probes of other pages")
	}
	deployedCommand(t, list(at(container, "args")))
	wait := deployedCommand(t, list(at(container, "lifecycle", "preStop", "exec", "command"))[1:])
	if grace, _ := at(pod, "terminationGracePeriodSeconds").(int); time.Duration(grace)*time.Second < wait+10*time.Second {
		t.Errorf("%d seconds are not enough for a drain of %v", grace, wait)
	}
	text, _ := at(objects["v1 ConfigMap metatool"], "data", "config.toml").(string)
	cfg := useConfig(t, text, "/etc/fleet/fleet-keys")
	for i, address := range []string{cfg.HTTP.Listen, cfg.Store.PeerListen, cfg.Telemetry.Listen} {
		if port := fmt.Sprint(":", at(container, "ports", i, "containerPort")); !strings.HasSuffix(address, port) {
			t.Errorf("it listens on %s, and the port of the container is %s", address, port)
		}
	}
	nats, _ := at(objects["v1 ConfigMap nats"], "data", "nats.conf").(string)
	checkNATS(t, nats)
}

// composeFile has the parts of the Compose specification that compose.yaml uses.
type composeFile struct {
	Name     string
	Metatool any `yaml:"x-metatool"`
	NATS     any `yaml:"x-nats"`
	Services map[string]struct {
		Image       string
		Command     []any
		Environment map[string]string
		Configs     []struct{ Source, Target string }
		Secrets     []struct{ Source, Target string }
		Restart     string
		Grace       string                    `yaml:"stop_grace_period"`
		PreStop     []struct{ Command []any } `yaml:"pre_stop"`
		ReadOnly    bool                      `yaml:"read_only"`
		Tmpfs       []string
		CapDrop     []string `yaml:"cap_drop"`
		Security    []string `yaml:"security_opt"`
		Hostname    string
		Volumes     []string
		Ports       []string
	}
	Volumes map[string]struct{}
	Secrets map[string]struct{ File string }
	Configs map[string]struct{ Content string }
}

// TestCompose checks the file for Docker Compose in the same way.
func TestCompose(t *testing.T) {
	deployEnv(t)
	var f composeFile
	dec := yaml.NewDecoder(bytes.NewReader(deployFile(t, "compose.yaml")))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	replicas, servers := 0, 0
	for name, s := range f.Services {
		for _, c := range s.Configs {
			if _, ok := f.Configs[c.Source]; !ok || c.Target == "" {
				t.Errorf("%s: there is no config %s", name, c.Source)
			}
		}
		for _, c := range s.Secrets {
			if _, ok := f.Secrets[c.Source]; !ok {
				t.Errorf("%s: there is no secret %s", name, c.Source)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := f.Volumes[volume]; !ok || volume != name {
				t.Errorf("%s: the volume %s is not its own", name, volume)
			}
		}
		switch {
		case strings.HasPrefix(name, "metatool-"):
			replicas++
			deployedCommand(t, s.Command)
			wait := deployedCommand(t, s.PreStop[0].Command[1:])
			if grace, err := time.ParseDuration(s.Grace); err != nil || grace < wait+10*time.Second {
				t.Errorf("%s: %s is not enough for a drain of %v: %v", name, s.Grace, wait, err)
			}
		case strings.HasPrefix(name, "nats-"):
			servers++
		}
	}
	if replicas != 3 || servers != 3 {
		t.Errorf("%d replicas, %d NATS servers", replicas, servers)
	}
	unescape := func(text string) string { return strings.ReplaceAll(text, "$$", "$") } // as Compose does
	useConfig(t, unescape(f.Configs["metatool"].Content), "/run/secrets/fleet-keys")
	checkNATS(t, unescape(f.Configs["nats"].Content))
}
