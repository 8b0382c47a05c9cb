package console

import (
	"context"
	"net/http"
	"net/url"
)

// messages answers with the dead letters of inboxes. The page links to the outboxes.
func (c *Console) messages(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if len(c.cfg.Stores) == 0 {
		http.Redirect(w, r, c.cfg.Prefix+"/outbox", http.StatusSeeOther)
		return
	}
	q.Set("state", stateDeadLetter)
	f, err := parseKeyFilter(q)
	if err != nil {
		c.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	c.keyList(w, r, f, "/messages", page{Title: "Messages", Nav: "messages", Live: true})
}

// outboxData is the messages of one outbox that wait.
type outboxData struct {
	Source  string
	Sources []string
	Failing bool
	Stats   OutboxStats
	Rows    []Message
	Now     string
	First   bool
	Next    string
	Failure string
}

func (c *Console) outbox(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	o, ok := c.findOutbox(q.Get("in"))
	if !ok {
		c.fail(w, r, http.StatusNotFound, "The console has no such outbox.")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := outboxData{Source: o.Name, Failing: q.Get("failing") != "", First: q.Get("page") == ""}
	for i := range c.cfg.Outboxes {
		d.Sources = append(d.Sources, c.cfg.Outboxes[i].Name)
	}
	var err error
	if d.Stats, err = o.Stats(ctx); err == nil && o.List != nil {
		d.Rows, err = o.List(ctx, d.Failing, q.Get("page"), pageRows)
	}
	d.Failure = explain(err)
	if n := len(d.Rows); n == pageRows {
		v := url.Values{"in": {o.Name}, "page": {d.Rows[n-1].Position}}
		if d.Failing {
			v.Set("failing", "1")
		}
		d.Next = c.cfg.Prefix + "/outbox?" + v.Encode()
	}
	c.render(w, r, http.StatusOK, "outbox", page{Title: "Outbox", Nav: "messages", Live: true, Data: &d})
}

// findOutbox returns the outbox of that name, or the first one if the name is empty.
func (c *Console) findOutbox(name string) (*Outbox, bool) {
	for i := range c.cfg.Outboxes {
		if name == "" || c.cfg.Outboxes[i].Name == name {
			return &c.cfg.Outboxes[i], true
		}
	}
	return nil, false
}
