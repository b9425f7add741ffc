package verify

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// against verifies lines and what a client has kept.
func against(t testing.TB, lines [][]byte, kept []byte) *Result {
	t.Helper()
	receipt, err := ParseReceipt(kept)
	if err != nil {
		t.Fatalf("%v: %s", err, kept)
	}
	result, err := File(t.Context(), lines, "", Options{Keys: []seal.PublicKey{testKey.Public()}, Sandbox: sandboxtest.Guest(t), Receipt: receipt})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestReceipts compares what clients were given, as they may have kept it, with the record.
func TestReceipts(t *testing.T) {
	for _, name := range []string{"order", "plain", "fails", "words", "image"} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, t.TempDir(), signed())
			given := call(t, l, name)
			meta, _ := wire.Get(given, "_meta")
			receipt, _ := wire.Get(meta, compose.ReceiptKey)
			id, _ := wire.GetString(receipt, "run")
			lines := export(t, l, id)
			indented := jsontext.Value(bytes.Clone(given))
			if err := indented.Indent(jsontext.ReorderRawObjects(true)); err != nil {
				t.Fatal(err)
			}
			for form, kept := range map[string][]byte{
				"result": given, "other form": indented, "response": fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":%s}`, given), "meta": meta, "receipt": receipt,
			} {
				result := against(t, lines, kept)
				whole := strings.Contains(result.Text(), ", and so is the result\n")
				if !result.Verified() || whole != (form != "meta" && form != "receipt") {
					t.Errorf("%s:\n%s", form, result.Text())
				}
			}
		})
	}
}

// TestChangedReceipts changes what a client has kept, or the record behind its back, with and
// without the private key.
func TestChangedReceipts(t *testing.T) {
	l := openLog(t, t.TempDir(), signed())
	given, failure, another := call(t, l, "order"), call(t, l, "fails"), call(t, l, "order")
	idOf := func(result []byte) string {
		id, _ := wire.GetString(result, "_meta", compose.ReceiptKey, "run")
		return id
	}
	lines, failed := export(t, l, idOf(given)), export(t, l, idOf(failure))
	replaced := func(kept []byte, from, to string) []byte {
		return edit(t, [][]byte{kept}, from, to)[0]
	}
	without := func(member string) []byte {
		kept, err := wire.Delete(given, "_meta", compose.ReceiptKey, member)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	rewritten := forge(t, edit(t, lines, `"fuel":10000000000`, `"fuel":20000000000`), testKey)
	if !verified(t, rewritten).Verified() {
		t.Fatal("who has the key can write a record anew")
	}
	again := make([][]byte, len(lines)) // only signed anew, at another time
	for i, line := range lines {
		again[i] = bytes.Clone(line)
	}
	p, _ := seal.Cut(again[len(again)-1])
	later := *p.Seal.Statement(idOf(given), seal.Event(p.Body))
	later.Time = later.Time.Add(1)
	made, err := testKey.Sign(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	again[len(again)-1] = append(seal.AppendSeal(bytes.TrimSuffix(bytes.Clone(p.Body), []byte("}")), made), '}')
	head, _ := wire.GetString(given, "_meta", compose.ReceiptKey, "head")
	for _, c := range []struct {
		name  string
		lines [][]byte
		kept  []byte
		want  string
	}{
		{"record written anew with the key", rewritten, given, "the record was changed after the result was given"},
		{"record signed anew", again, given, "was signed again"},
		{"record without its signature", unsealed(t, lines), given, "the signature was removed"},
		{"another head", lines, replaced(given, head, strings.Repeat("0", 64)), "the receipt is no evidence: the signature is not valid"},
		{"signature removed from the receipt", lines, without("seal"), "the receipt is not signed, but the record is"},
		{"another run", lines, another, "of the receipt is missing"},
		{"result", lines, replaced(given, `"structuredContent":{"result":{"total":42}`, `"structuredContent":{"result":{"total":43}`), "the result differs from the recorded result"},
		{"text", lines, replaced(given, `{\"total\":42}`, `{\"total\":43}`), "block 1 of the content differs from the recorded block"},
		{"failure in place of the result", lines, replaced(given, `"isError":false`, `"isError":true`), `has isError true, and the recorded outcome is "ok"`},
		{"error", failed, replaced(failure, `"line":2`, `"line":3`), "the error in structuredContent differs from the recorded error"},
	} {
		if result := against(t, c.lines, c.kept); result.Verified() || !strings.Contains(result.Text(), c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, result.Text())
		}
	}
}

// TestReceiptAlone checks signatures without a record.
func TestReceiptAlone(t *testing.T) {
	l := openLog(t, t.TempDir(), signed())
	given := call(t, l, "plain")
	other := seal.FromSeed(bytes.Repeat([]byte{8}, 32)).Public()
	for _, c := range []struct {
		name string
		kept []byte
		keys []seal.PublicKey
		want string
	}{
		{"right", given, []seal.PublicKey{other, testKey.Public()}, "the signature is valid"},
		{"no key", given, nil, "no key to check the signature"},
		{"another key", given, []seal.PublicKey{other}, "not with a trusted key"},
		{"changed", edit(t, [][]byte{given}, `"outcome":"ok"`, `"outcome":"tool"`)[0], []seal.PublicKey{testKey.Public()}, "the signature is not valid"},
		{"unsigned", call(t, openLog(t, t.TempDir(), journal.LogOptions{}), "plain"), []seal.PublicKey{testKey.Public()}, "the run was not signed"},
	} {
		receipt, err := ParseReceipt(c.kept)
		if err != nil {
			t.Fatal(err)
		}
		if r := receipt.Check(c.keys); r.Verified != (c.name == "right") || !strings.Contains(r.Text(), c.want) {
			t.Errorf("%s:\n%s", c.name, r.Text())
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"run":"a"}`, `{"run":"a","head":"b"}`, `{"run":"a","run":"a","head":"` + strings.Repeat("ab", 32) + `"}`, `{"_meta":{}}`, `{"_meta":{"io.github.mcp-metatool/receipt":1}}`, "\xff"} {
		if r, err := ParseReceipt([]byte(bad)); err == nil {
			t.Errorf("%s: %+v", bad, r)
		}
	}
}

// FuzzReceipt reads and compares hostile receipts: none but a right one is verified.
func FuzzReceipt(f *testing.F) {
	// The same in each process of the fuzzer.
	made, err := testKey.Sign(f.Context(), seal.Statement{Run: "a", Head: seal.Event(nil), Events: 3, Outcome: "ok", Guest: "00", Time: time.Unix(1, 2)})
	if err != nil {
		f.Fatal(err)
	}
	given := fmt.Appendf(nil, `{"_meta":{%q:{"run":"a","head":"%s","seal":%s}},"content":[{"type":"text","text":"41"}],"structuredContent":{"result":41},"isError":false}`,
		compose.ReceiptKey, seal.Event(nil), made.JSON())
	f.Add(given)
	f.Add([]byte(`{"result":{"_meta":{"io.github.mcp-metatool/receipt":{"run":"a","head":"` + strings.Repeat("ab", 32) + `","seal":{"events":1,"time":"2026-11-24T15:04:05Z"}}}}}`))
	right, err := ParseReceipt(given)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseReceipt(text)
		if err != nil {
			return
		}
		report := r.Check([]seal.PublicKey{testKey.Public()})
		_ = report.Text()
		if report.Verified && (r.Run != right.Run || r.Head != right.Head || !bytes.Equal(r.Seal.JSON(), right.Seal.JSON())) {
			t.Errorf("%s is signed", text)
		}
		if r.result != nil {
			_ = sameResult(&journal.Record{Outcome: journal.Outcome{Result: []byte(`41`)}}, r.result)
		}
	})
}
