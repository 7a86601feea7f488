package main

import (
	"embed"
	"strings"
	"sync"
)

//go:embed sql
var sqlFiles embed.FS

// query returns the named part of sql/<file>.sql. A name that is not there is a mistake in this program.
func query(file, name string) string {
	text, ok := queries()[file+"/"+name]
	if !ok {
		panic("bench: no query " + name + " in sql/" + file + ".sql")
	}
	return text
}

// queries splits the files at their lines of "-- name: NAME".
var queries = sync.OnceValue(func() map[string]string {
	const mark = "-- name: "
	texts := map[string]string{}
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		panic("bench: " + err.Error())
	}
	for _, f := range files {
		content, err := sqlFiles.ReadFile("sql/" + f.Name())
		if err != nil {
			panic("bench: " + err.Error())
		}
		for part := range strings.SplitSeq("\n"+string(content), "\n"+mark) {
			name, text, ok := strings.Cut(part, "\n")
			if ok && strings.TrimSpace(name) != "" {
				texts[strings.TrimSuffix(f.Name(), ".sql")+"/"+name] = strings.TrimSpace(text)
			}
		}
	}
	return texts
})
