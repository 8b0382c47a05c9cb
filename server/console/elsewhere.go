package console

import (
	"net/http"
	"sync"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// elsewhere says what needs a person outside the one store or journal that a list is about.
type elsewhere struct {
	Needs  []sourceLink
	Unread []unreadSource
}

// storeInNeed returns the store of that name. Without a name it is the first one that has what the list is for, or the first
// of all. A list of ages is about one store, and says nothing about others.
func (c *Console) storeInNeed(r *http.Request, name string, f *keyFilter) (*Store, elsewhere) {
	chosen, _ := c.store(name)
	if f.Windowed() || len(c.cfg.Stores) == 1 {
		return chosen, elsewhere{}
	}
	kind := keyFilter{State: stateAttention}
	if f.State == stateDeadLetter {
		kind.State = stateDeadLetter
	}
	links := make([]sourceLink, len(c.cfg.Stores))
	for i := range c.cfg.Stores {
		links[i] = c.keyList(c.cfg.Stores[i].Name, kind.State)
	}
	asked := c.askEach(r, links, func(i int) (bool, error) {
		records, err := c.cfg.Stores[i].Reader.List(r.Context(), kind.listRequest(store.Cursor{}, 1))
		return len(records) > 0, err
	})
	at, others := choose(asked, links, name)
	return &c.cfg.Stores[at], others
}

// journalInNeed returns the journal of that name. Without a name it is the first one that has a stuck saga, or the first of
// all.
func (c *Console) journalInNeed(r *http.Request, name string, f *sagaFilter) (*Sagas, elsewhere) {
	chosen, _ := c.journal(name)
	if f.Windowed() || len(c.cfg.Sagas) == 1 {
		return chosen, elsewhere{}
	}
	links := make([]sourceLink, len(c.cfg.Sagas))
	for i := range c.cfg.Sagas {
		links[i] = c.sagaList(c.cfg.Sagas[i].Name, journal.Stuck.String())
	}
	asked := c.askEach(r, links, func(i int) (bool, error) {
		stuck := sagaFilter{Status: journal.Stuck.String()}
		records, err := stuck.read(r.Context(), c.cfg.Sagas[i].Reader, journal.Cursor{}, 1)
		return len(records) > 0, err
	})
	at, others := choose(asked, links, name)
	return &c.cfg.Sagas[at], others
}

// An askedSource says whether a source needs a person, as far as that is known.
type askedSource struct {
	needs   bool
	failure string
}

// askEach asks the sources side by side: a slow one delays no other.
func (c *Console) askEach(r *http.Request, sources []sourceLink, ask func(i int) (bool, error)) []askedSource {
	asked := make([]askedSource, len(sources))
	var all sync.WaitGroup
	for i := range sources {
		all.Go(func() {
			needs, err := ask(i)
			asked[i] = askedSource{needs, c.explain(r, err)}
		})
	}
	all.Wait()
	return asked
}

// choose returns the place of the source of that name, and what is to be said about the others. Without a name it is the
// first source that needs a person.
func choose(asked []askedSource, links []sourceLink, name string) (at int, others elsewhere) {
	for i := len(asked) - 1; i >= 0; i-- {
		if name == links[i].Name || name == "" && asked[i].needs {
			at = i
		}
	}
	for i, a := range asked {
		switch {
		case i == at:
		case a.failure != "":
			others.Unread = append(others.Unread, unreadSource{links[i].Name, links[i].Noun, a.failure})
		case a.needs:
			others.Needs = append(others.Needs, links[i])
		}
	}
	return at, others
}
