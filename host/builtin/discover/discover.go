// Package discover is what agents find tools with, and learn to call them: a
// ranked search over tool definitions, and one definition written as a function
// of the script language.
//
//	words.go      from names and texts to words
//	synonyms.go   words that mean nearly the same
//	index.go      Index: BM25 over the words of many tools
//	query.go      which words of an index a query means
//	node.go       a JSON document as a tree, references within it
//	shape.go      what the keywords of a schema say together
//	types.go      a schema as a type
//	layout.go     breaking long types into lines
//	signature.go  Describe: the function, its arguments, conditions
//	notes.go      what a signature says about its arguments
//	example.go    plausible arguments
//	literal.go    JSON values as the script language writes them
//
// Definitions come from servers that nobody has checked. Whatever they hold,
// what is made of them, and the work of making it, is bounded; a schema that
// makes no sense gives a signature that says little.
package discover
