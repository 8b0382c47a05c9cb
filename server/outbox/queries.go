package outbox

import (
	"embed"

	"github.com/fanonce/fanonce/internal/pgkit"
)

//go:embed query/*.sql
var queryFiles embed.FS

// queries are the files of query/, ready for one schema.
type queries struct {
	write                   pgkit.Query
	join, take, leave       pgkit.Query
	next, published, failed pgkit.Query
	stats                   pgkit.Query
	settings, list, failing pgkit.Query // of a Reader
}

var queriesBySchema = pgkit.BySchema[*queries]{Load: loadQueries}

func loadQueries(schema string) (*queries, error) {
	q := new(queries)
	return q, pgkit.LoadQueries(queryFiles, schema, map[string]*pgkit.Query{
		"write": &q.write, "join": &q.join, "take": &q.take, "leave": &q.leave,
		"next": &q.next, "published": &q.published, "failed": &q.failed, "stats": &q.stats,
		"reader_settings": &q.settings, "reader_list": &q.list, "reader_failing": &q.failing,
	})
}
