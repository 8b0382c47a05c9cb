// Package schema declares the ledger's tables for ent.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/dialect/entsql"
	"entgo.io/ent/schema"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// An Account is a row of the table account.
type Account struct{ ent.Schema }

// Annotations names the table.
func (Account) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("account")}
}

// Fields has the columns.
func (Account) Fields() []ent.Field {
	return []ent.Field{
		field.String("id").StorageKey("name"),
		field.Int64("cents"),
	}
}

// Edges leads to the entries of the account.
func (Account) Edges() []ent.Edge {
	return []ent.Edge{edge.To("entries", Entry.Type)}
}

// An Entry is a row of the table entry.
type Entry struct{ ent.Schema }

// Annotations names the table.
func (Entry) Annotations() []schema.Annotation {
	return []schema.Annotation{entsql.Table("entry")}
}

// Fields has the columns.
func (Entry) Fields() []ent.Field {
	return []ent.Field{
		field.Int64("id"),
		field.String("account_id").StorageKey("account"),
		field.Int64("cents"),
	}
}

// Edges leads to the account of the entry.
func (Entry) Edges() []ent.Edge {
	return []ent.Edge{edge.From("account", Account.Type).Ref("entries").Field("account_id").Unique().Required()}
}
