package config

import "testing"

// TestMaskCut checks that no beginning of a secret is left where a text was shortened.
func TestMaskCut(t *testing.T) {
	var m Masker
	m.Add("hunter2-hunter2", `quo"ted-secret`)
	for in, want := range map[string]string{
		"a hunter2-hun… (900 bytes)":          "a ****… (900 bytes)",
		"hunter2-hunter2":                     "****",
		"hunt…":                               "****…",
		"hun…":                                "hun…", // by chance
		"hunter…, then hunter2-hunter2, hunt": "****…, then ****, hunt",
		`{"a": "quo\"te… (3 bytes)`:           `{"a": "****… (3 bytes)`,
		"nothing… here…":                      "nothing… here…",
		"hunter2-hunter2…":                    "****…",
		"…":                                   "…",
	} {
		if got := m.MaskCut(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := (*Masker)(nil).MaskCut("hunt…"); got != "hunt…" {
		t.Errorf("a nil Masker makes %q", got)
	}
}
