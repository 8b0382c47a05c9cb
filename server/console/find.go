package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// find answers a search with a redirect to an ID. The text of a key is in the form's body alone: the address that
// follows has the ID, which is a hash of it.
func (c *Console) find(w http.ResponseWriter, r *http.Request) {
	id, err := soughtID(r.PostForm)
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	http.Redirect(w, r, c.cfg.Prefix+"/id/"+id.String(), http.StatusSeeOther)
}

// soughtID is the ID that a search form names: as an ID, as a key with its scope and namespace, or as a saga's key.
func soughtID(form url.Values) (store.ID, error) {
	if text := strings.TrimSpace(form.Get("id")); text != "" {
		id, err := store.ParseID(text)
		if err != nil {
			return id, badInput("That is no ID. An ID has 32 hex digits, with or without hyphens. To find a key by its text, use the form of keys.")
		}
		return id, nil
	}
	key, err := childkey.Parse(form.Get("key"))
	if err != nil {
		return store.ID{}, badInput("That is no key: a key has 1 to 255 visible ASCII characters.")
	}
	if definition := form.Get("definition"); definition != "" {
		return store.ID(journal.IDOf(form.Get("scope"), definition, key)), nil
	}
	return store.NewID(form.Get("scope"), form.Get("namespace"), key), nil
}

// A place is a source that has a record of an ID.
type place struct{ Source, Kind, Link, Detail string }

// locate answers with the page of an ID, whatever source has it. Logs and problems name an ID alone.
func (c *Console) locate(w http.ResponseWriter, r *http.Request) {
	id, err := store.ParseID(r.PathValue("id"))
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, "The address names no ID.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	places, failures := c.places(ctx, id)
	if len(places) == 1 && len(failures) == 0 {
		http.Redirect(w, r, places[0].Link, http.StatusSeeOther)
		return
	}
	status := http.StatusOK
	if len(places) == 0 {
		status = http.StatusNotFound
	}
	c.render(w, r, status, "places", page{Title: "Search", Data: map[string]any{"ID": id.String(), "Places": places, "Failures": failures}})
}

// places asks all sources for an ID, side by side.
func (c *Console) places(ctx context.Context, id store.ID) (found []place, failures []string) {
	stores, sagas := c.cfg.Stores, c.cfg.Sagas
	places, errs := make([]place, len(stores)+len(sagas)), make([]error, len(stores)+len(sagas))
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			rec, err := stores[i].Reader.Show(ctx, id)
			errs[i] = err
			places[i] = place{stores[i].Name, "key", c.link("/key", stores[i].Name, id.String()), rec.State.String()}
		})
	}
	for i := range sagas {
		all.Go(func() {
			rec, err := sagas[i].Reader.Show(ctx, journal.ID(id))
			errs[len(stores)+i] = err
			places[len(stores)+i] = place{sagas[i].Name, "saga", c.link("/saga", sagas[i].Name, journal.ID(id).String()), rec.Name + ", " + rec.Status.String()}
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			found = append(found, places[i])
		case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, journal.ErrNotFound):
			failures = append(failures, cmp.Or(places[i].Source, "?")+": "+explain(err))
		}
	}
	return found, failures
}

// link is the address of the page of one record.
func (c *Console) link(page, source, id string) string {
	return c.cfg.Prefix + page + "?" + url.Values{"in": {source}, "id": {id}}.Encode()
}
