package compile

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// FuzzArguments checks that numbers have the value with which they are written.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{"0", "-0", "1e400", "9007199254740993", "9007199254740993.0", "18446744073709551616", "0.1", "1E-7", "-1.50e+3", "1e9999999999999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var number json.Number
		if json.Unmarshal([]byte(text), &number) != nil || number == "" || len(text) > 400 {
			return
		}
		a, err := policy.ParseArguments([]byte(`{"n":` + number.String() + `}`))
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(number.String())
		if !ok {
			t.Fatalf("%s is accepted", text)
		}
		got := new(big.Rat)
		switch n := a.Object["n"].(type) {
		case int64:
			got.SetInt64(n)
		case uint64:
			got.SetUint64(n)
		case float64: // stands for its shortest decimal, as everywhere
			raw, _ := json.Marshal(n)
			got.SetString(string(raw))
		}
		if got.Cmp(want) != 0 {
			t.Errorf("%s is %s", text, got)
		}
	})
}
