package tools

func limitFileSize() bool { return false }
