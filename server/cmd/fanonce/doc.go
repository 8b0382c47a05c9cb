// Command fanonce looks at and steers what the packages of this library keep in Postgres: keys and sagas.
//
//	fanonce migrate up --component keys   makes the tables
//	fanonce doctor                        says what is wrong with the database, and what to type
//	fanonce keys list                     lists the keys that need a person
//	fanonce key derive order-42 payment charge
//
// DATABASE_URL or --database names the database. --json is for scripts. Each command's --help has its flags and an
// example, and README.md has a table of them.
//
// The program shows no request body, no answer and no secret, and it writes no log. It changes nothing without a verb
// that says so. It knows no saga definition and no handler: what needs one is for the service's own program.
package main
