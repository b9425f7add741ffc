package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"
)

// TestDeployed checks that the server takes its configurations in docs/deploy.
func TestDeployed(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "a-password-of-nats")
	t.Setenv("POD_NAME", "nats-0")
	for file, find := range map[string]func(*yaml.Decoder) (string, error){
		"kubernetes.yaml": func(d *yaml.Decoder) (string, error) {
			for {
				var o struct{ Data map[string]any }
				err := d.Decode(&o)
				if text, is := o.Data["nats.conf"].(string); is || err != nil {
					return text, err
				}
			}
		},
		"compose.yaml": func(d *yaml.Decoder) (string, error) {
			var o struct {
				Configs map[string]struct{ Content string }
			}
			err := d.Decode(&o)
			return strings.ReplaceAll(o.Configs["nats"].Content, "$$", "$"), err // as Compose does
		},
	} {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("..", "..", "docs", "deploy", file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := find(yaml.NewDecoder(bytes.NewReader(data)))
			if err != nil || text == "" {
				t.Fatalf("%q, %v", text, err)
			}
			var kept strings.Builder
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(strings.TrimSpace(line), "tls {") { // whose files are not here
					kept.WriteString(line)
				}
			}
			opts := &server.Options{}
			if err := opts.ProcessConfigString(kept.String()); err != nil {
				t.Fatal(err)
			}
			if !opts.JetStream || len(opts.Routes) != 3 || opts.Cluster.Name == "" || opts.Username == "" || opts.Password == "" {
				t.Errorf("%+v", opts)
			}
		})
	}
}
