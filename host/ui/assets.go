package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// types are the media types of the page's files, which do not depend on the machine.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// serveAsset answers with a file of the page. The files contain nothing secret, so the page can ask
// for a token.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Path)
	if name == "" {
		name = "index.html"
	}
	content, err := files.ReadFile(path.Join("page", name))
	kind := types[path.Ext(name)]
	switch {
	case err != nil || kind == "" || strings.Contains(name, "/"):
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache") // asked for again, for another version of the program
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	deadline(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
