// Package discover helps agents to find tools and to call them. It has a ranked search over
// tool definitions, and describes a tool as a function of the script language.
//
// \twords.go      splitting names and texts into words
// \tsynonyms.go   words with nearly the same meaning
// \tindex.go      Index: BM25 over the words of many tools
// \tquery.go      finding the words of an index that a query means
// \tnode.go       a JSON document as a tree, references within it
// \tshape.go      combining the keywords of a schema
// \ttypes.go      a schema as a type
// \tlayout.go     breaking long types into lines
// \tsignature.go  Describe: the function, its arguments, conditions
// \tnotes.go      notes on the arguments of a function
// \texample.go    plausible arguments
// \tliteral.go    JSON values in the script language
//
// Definitions come from servers and are not trusted. Whatever they contain, the output and
// the work are bounded. A schema that makes no sense gives a signature with little
// information.
package discover
