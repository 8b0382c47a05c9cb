package pgstore

import "github.com/fanonce/fanonce/internal/pgkit"

// readerQueries are the files of query/ that a [Reader] sends, ready for one schema. They name only the columns that
// the observer may read.
type readerQueries struct {
	settings, indexes      pgkit.Query
	show, browse           pgkit.Query
	attention, children    pgkit.Query
	countAttention         pgkit.Query
	size, sweepLag, young  pgkit.Query
	auditOfAll, auditOfOne pgkit.Query
}

var (
	readerQueriesBySchema = pgkit.BySchema[*readerQueries]{Load: func(schema string) (*readerQueries, error) {
		q := new(readerQueries)
		return q, pgkit.LoadQueries(queryFiles, schema, q.all())
	}}
	distributedReaderQueriesBySchema = pgkit.BySchema[*readerQueries]{Load: func(schema string) (*readerQueries, error) {
		q := new(readerQueries)
		return q, pgkit.LoadDistributedQueries(queryFiles, schema, q.all())
	}}
)

func (q *readerQueries) all() map[string]*pgkit.Query {
	return map[string]*pgkit.Query{
		"reader_settings":  &q.settings,
		"reader_indexes":   &q.indexes,
		"reader_show":      &q.show,
		"reader_browse":    &q.browse,
		"reader_attention": &q.attention,
		"reader_children":  &q.children,
		"count_attention":  &q.countAttention,
		"reader_size":      &q.size,
		"reader_sweep_lag": &q.sweepLag,
		"reader_young":     &q.young,
		"reader_audit":     &q.auditOfAll,
		"reader_audit_of":  &q.auditOfOne,
	}
}
