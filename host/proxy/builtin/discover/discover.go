// Package discover helps agents to find tools and to call them. It has a ranked search over
// tool definitions, and describes a tool as a function of the script language.
//
//	words.go      splitting names and texts into words
//	synonyms.go   words with nearly the same meaning
//	index.go      Index: BM25 over the words of many tools
//	query.go      finding the words of an index that a query means
//	node.go       a JSON document as a tree, references within it
//	shape.go      combining the keywords of a schema
//	types.go      a schema as a type
//	layout.go     breaking long types into lines
//	signature.go  Describe: the function, its arguments, conditions
//	notes.go      notes on the arguments of a function
//	example.go    plausible arguments
//	literal.go    JSON values in the script language
//
// Definitions come from servers and are not trusted. Whatever they contain, the output and
// the work are bounded. A schema that makes no sense gives a signature with little
// information.
package discover
