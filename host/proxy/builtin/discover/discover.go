// Package discover helps agents to find tools and to call them. Index is a ranked search over tool
// definitions, and Describe describes a tool as a function of the script language: start with these
// two.
//
// Definitions come from servers and are not trusted. For every definition, the output and the work
// are bounded. A meaningless schema gives a signature with little information.
package discover
