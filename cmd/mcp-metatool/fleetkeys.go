package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func fleetKeysCommand() *cobra.Command {
	v := &fleetView{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show what in the store is encrypted with which key of the fleet",
		Long: `Count what in the store is encrypted with which key of the fleet. After a new key has been put
first everywhere, the replicas encrypt the documents again by themselves; logs keep their key
until they are removed. The exit code is 1 if something is encrypted with a key that is not
configured here. Keys themselves are not shown, only their ids.`,
		Example: `  mcp-metatool fleet keys
  mcp-metatool fleet keys --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.keys(cmd) },
	}
	v.addFlags(cmd)
	return cmd
}

// keyJSON is a key in the output of fleet keys --json.
type keyJSON struct {
	ID         string `json:"id"`
	Configured bool   `json:"configured"`
	Encrypts   bool   `json:"encrypts"` // it is the first one here
	Documents  int    `json:"documents"`
	Logs       int    `json:"logs"`
}

func (v *fleetView) keys(cmd *cobra.Command) error {
	end, err := v.open(cmd)
	defer end()
	if err != nil {
		return err
	}
	uses, err := v.fleet.KeyUses(cmd.Context())
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("the store of the fleet: %w", err)}
	}
	all, unknown := v.keysIn(uses)
	if v.asJSON {
		err = writeJSON(cmd.OutOrStdout(), all)
	} else {
		t := newTable(cmd.OutOrStdout())
		t.head("KEY", "", right("DOCUMENTS"), right("LOGS"))
		for _, k := range all {
			t.row(display.EscapeLine(k.ID), k.remark(), k.Documents, k.Logs)
		}
		err = t.flush()
	}
	if err == nil && unknown {
		err = &exitError{code: exitFailed}
	}
	return err
}

// keysIn returns the keys of the configuration, and then those that only the store knows.
func (v *fleetView) keysIn(uses map[string]sealed.Use) (all []keyJSON, unknown bool) {
	for i, k := range v.cfg.Store.Keys {
		all = append(all, keyJSON{k.ID, true, i == 0, uses[k.ID].Documents, uses[k.ID].Logs})
		delete(uses, k.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(uses)) {
		all, unknown = append(all, keyJSON{ID: id, Documents: uses[id].Documents, Logs: uses[id].Logs}), true
	}
	return all, unknown
}

func (k *keyJSON) remark() string {
	switch {
	case k.ID == "":
		return "not encrypted: somebody else has written it"
	case !k.Configured:
		return "not configured here"
	case k.Encrypts:
		return "encrypts"
	case k.Documents+k.Logs == 0:
		return "decrypts; nothing needs it"
	}
	return "decrypts"
}
