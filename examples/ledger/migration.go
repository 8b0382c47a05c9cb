package main

import (
	"embed"
	"io/fs"

	"github.com/fanonce/fanonce/server/pgkit"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

// effectsTables are the ledger's own tables, beside the store's.
var effectsTables = pgkit.Migrations{Component: "ledger", Files: migrations()}

func migrations() fs.FS {
	files, err := fs.Sub(migrationFiles, "migration")
	if err != nil {
		panic(err) // cannot be: the folder is embedded above
	}
	return files
}
