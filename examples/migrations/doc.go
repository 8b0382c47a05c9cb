// Migrations writes the tables of pgstore and pgjournal as migration files for tern, goose or golang-migrate.
// It is for services whose tables another tool makes, instead of the Migrate of each package:
//
//	go run github.com/fanonce/fanonce/examples/migrations -tool goose -dir migrations pgstore pgjournal
//
// Each file is one step. Its SQL is that of the package's MigrationFiles. Around it is a condition: the step does nothing
// where it was taken before. So the files and Migrate can be used in any order. README.md has a page for each tool.
package main
