package mcptest

import (
	"strings"
	"testing"
)

// TestEraItemsDirectly checks that each item works in both eras, and has the same
// observation.
func TestEraItemsDirectly(t *testing.T) {
	first := map[string][]byte{}
	for _, tr := range transports {
		for _, era := range []string{EraLegacy, EraModern} {
			if era == EraModern && tr.name != "stdio" && tr.name != "http" || era == EraLegacy && tr.name != "stdio" {
				continue // TestItemsDirectly has the others
			}
			t.Run(tr.name+" "+era, func(t *testing.T) {
				ctx := testContext(t)
				c, log := tr.dial(t, ServerOptions{Eras: era}, ClientOptions{OnRequest: AnswerRequest})
				defer c.Disconnect()
				p := &Pair{Client: c, Server: log, Modern: era == EraModern, HTTP: tr.name != "stdio"}
				if era == EraLegacy {
					var err error
					if p.InitializeResponse, err = c.Initialize(ctx, ClientParams); err != nil {
						t.Fatal(err)
					}
				}
				for _, item := range EraItems {
					seen, err := item.Run(ctx, p)
					if err != nil {
						t.Errorf("%s: %v", item.Name, err)
						continue
					}
					if first[item.Name] == nil {
						first[item.Name] = seen
					}
					if diff := Diff(first[item.Name], seen); diff != "" {
						t.Errorf("%s: %s", item.Name, diff)
					}
					for _, want := range wantedOfEras[item.Name] {
						if !strings.Contains(string(seen), want) {
							t.Errorf("%s: no %s in %.3000s", item.Name, want, seen)
						}
					}
				}
			})
		}
	}
}

// wantedOfEras has texts that observations must contain, in addition to being equal.
var wantedOfEras = map[string][]string{
	"capabilities, instructions, _meta":                  {`"instructions":true`, `"subscribe":true`},
	"definitions, pages, _meta of lists":                 {`"number of tools":15`, `"number of resources":4`},
	"params and _meta of requests":                       {`traceparent`, `12345678901234567890`},
	"progress, 2,000 before the result":                  {`"before the result":2000,"after the result":0,"in order":true`},
	"progress of several calls at once":                  {`"before the result":200,"after the result":0,"in order":true`},
	"cancel":                                             {`"answered":0`},
	"cancel storm":                                       {`"not cancelled":0,"answered":0`},
	"logging":                                            {`"in order":true`},
	"questions of the server":                            {`"questions":1,"sampling/createMessage"`, `"questions":1,"roots/list"`, `"mode":"url"`},
	"updates of resources":                               {`"title":"t"`, `"updates after the end":false`},
	"list_changed":                                       {"new in tools", "new in prompts"},
	"JSON-RPC errors with data":                          {`"code":7,`, `"n":9007199254740993`},
	"large messages":                                     {"intact\":true"},
	"ids 1, \"1\" and huge ones":                         {`"id":1,`, `"id":"1",`},
	"results: unknown content, digits, _meta everywhere": {"hologram"},
}
