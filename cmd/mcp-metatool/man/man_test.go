package man

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestRoffEscapes(t *testing.T) {
	p := &page{}
	p.line(`.x "a\b" 'c' -d`)
	p.macro("B", `say "hi" \x`)
	want := `\&.x "a\eb" \(aqc\(aq \-d` + "\n" + `.B "say \(dqhi\(dq \ex"` + "\n"
	if p.String() != want {
		t.Errorf("got %q, want %q", p.String(), want)
	}
	if _, err := sourceDate("soon"); err == nil {
		t.Error("SOURCE_DATE_EPOCH=soon is accepted")
	}
	if date, err := sourceDate("86400"); err != nil || date != "1970-01-02" {
		t.Errorf("86400 is %q, %v", date, err)
	}
	if !bytes.Contains([]byte(pageOf(&cobra.Command{Use: "mcp-metatool"}, "")), []byte(`.TH "MCP-METATOOL" 1 ""`)) {
		t.Error("without a date, the title of a page is another")
	}
}
