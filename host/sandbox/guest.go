package sandbox

import _ "embed"

// embedded is the guest of the product. guest.sum beside it says what it was
// built from; scripts/build-guest makes both.
//
//go:embed guest.wasm
var embedded []byte
