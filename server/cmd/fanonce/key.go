package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/store"
)

func newKey(a *app) *cobra.Command {
	key := group(&cobra.Command{Use: "key", Short: "Make, derive and check keys; needs no database"})
	key.AddCommand(newKeyNew(a), newKeyDerive(a), newKeyHop(a), newKeyID(a), newKeyVerify(a))
	return key
}

// keyOut is the JSON of a command that prints one key.
type keyOut struct {
	Key string `json:"key"`
}

// keysOut is the JSON of key new.
type keysOut struct {
	Keys []string `json:"keys"`
}

func (a *app) printKey(key childkey.Key) error {
	return a.printLine(keyOut{key.String()}, key.String())
}

const maxNewKeys = 10_000

func newKeyNew(a *app) *cobra.Command {
	var v7 bool
	var count int
	cmd := &cobra.Command{
		Use: "new", Short: "Print a new random key", Args: takes(0, 0),
		Example: "  fanonce key new\n  fanonce key new --v7 --count 3",
		RunE: func(*cobra.Command, []string) error {
			if count < 1 || count > maxNewKeys {
				return fmt.Errorf("--count %d is not between 1 and %d", count, maxNewKeys)
			}
			create := childkey.New
			if v7 {
				create = childkey.NewV7
			}
			out := keysOut{Keys: make([]string, count)}
			for i := range count {
				key, err := create()
				if err != nil {
					return err
				}
				out.Keys[i] = key.String()
			}
			return a.printLine(out, strings.Join(out.Keys, "\n"))
		},
	}
	cmd.Flags().BoolVar(&v7, "v7", false, "a UUIDv7, which has the time in it, instead of a UUIDv4")
	cmd.Flags().IntVar(&count, "count", 1, "how many")
	return cmd
}

// A derivation has the choices for the text of a child key.
type derivation struct {
	encoding, scope, namespace string
	legacy                     bool
}

func (d *derivation) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.encoding, "encoding", childkey.Hex32.String(), "text form: "+strings.Join(encodingNames(), ", "))
	f.BoolVar(&d.legacy, "legacy", false, "SHA-256 of parent:service:operation, first 32 hex digits")
	f.StringVar(&d.scope, "scope", "", "PARENT is an inbound key of this scope: derive from its hop key, as a handler does")
	f.StringVar(&d.namespace, "namespace", "", "the guard's namespace, with --scope")
	_ = cmd.RegisterFlagCompletionFunc("encoding", cobra.FixedCompletions(encodingNames(), cobra.ShellCompDirectiveNoFileComp))
}

func encodingNames() []string {
	var names []string
	for _, e := range childkey.Encodings() {
		names = append(names, e.String())
	}
	return names
}

// parent returns the key that children are derived from.
func (d *derivation) parent(key childkey.Key) (childkey.Key, error) {
	if d.scope == "" {
		if d.namespace != "" {
			return childkey.Key{}, errors.New("--namespace needs --scope: unscoped, if the service has server.Unscoped")
		}
		return key, nil
	}
	return childkey.Hop(d.scope, d.namespace, key)
}

func (d *derivation) child(parent childkey.Key, service, operation string, more []string) (childkey.Key, error) {
	encodings := childkey.Encodings()
	at := slices.Index(encodingNames(), d.encoding)
	if at < 0 {
		return childkey.Key{}, fmt.Errorf("--encoding %q is none of %s", d.encoding, strings.Join(encodingNames(), ", "))
	}
	parent, err := d.parent(parent)
	if err != nil {
		return childkey.Key{}, err
	}
	if d.legacy {
		if len(more) > 0 || encodings[at] != childkey.Hex32 {
			return childkey.Key{}, errors.New("--legacy takes neither discriminators nor --encoding")
		}
		return childkey.Legacy(parent, service, operation)
	}
	sum, err := childkey.Sum(parent, service, operation, more...)
	if err != nil {
		return childkey.Key{}, err
	}
	return encodings[at].Key(sum)
}

func (a *app) key(arg string) (childkey.Key, error) {
	text, err := a.word(arg)
	if err != nil {
		return childkey.Key{}, err
	}
	return childkey.Parse(text)
}

func newKeyDerive(a *app) *cobra.Command {
	var d derivation
	cmd := &cobra.Command{
		Use: "derive PARENT SERVICE OPERATION [DISCRIMINATOR]...", Short: "Print the key of a downstream call", Args: takes(3, -1),
		Long: `Print the key under which the work of PARENT calls OPERATION of SERVICE.

PARENT is the parent key of the work. A guarded handler's parent key is the hop key of the request: give --scope
and --namespace with an inbound key, and its hop key is used.`,
		Example: "  fanonce key derive order-42 payment charge\n" +
			"  fanonce key derive --scope tenant-7 --namespace shop order-42 payment charge",
		RunE: func(_ *cobra.Command, args []string) error {
			parent, err := a.key(args[0])
			if err != nil {
				return fmt.Errorf("PARENT: %w", err)
			}
			child, err := d.child(parent, args[1], args[2], args[3:])
			if err != nil {
				return err
			}
			return a.printKey(child)
		},
	}
	d.flags(cmd)
	return cmd
}

func newKeyHop(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "hop SCOPE NAMESPACE KEY", Short: "Print the parent key that a guarded handler has", Args: takes(3, 3),
		Long: `Print the hop key: the parent key of the work that a guard does for KEY.

SCOPE is what the guard's ScopeFunc returned for the request; that of server.Unscoped is unscoped. NAMESPACE is the
guard's, "" for none; of an inbox it is inbox/CONSUMER, of a saga saga/DEFINITION.`,
		Example: `  fanonce key hop tenant-7 shop order-42`,
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := a.key(args[2])
			if err != nil {
				return fmt.Errorf("KEY: %w", err)
			}
			if err := checkScope(args[0], args[1]); err != nil {
				return err
			}
			hop, err := childkey.Hop(args[0], args[1], key)
			if err != nil {
				return err
			}
			return a.printKey(hop)
		},
	}
}

// checkScope refuses a scope that no request has: its ID would be that of nothing. A saga may have none.
func checkScope(scope, namespace string) error {
	if scope == "" && !strings.HasPrefix(namespace, "saga/") {
		return errors.New("SCOPE is empty: it is what the guard's ScopeFunc returns, and unscoped for server.Unscoped")
	}
	return childkey.CheckScope(scope)
}

// idOut is the JSON of key id.
type idOut struct {
	ID string `json:"id"`
}

func newKeyID(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "id SCOPE NAMESPACE KEY", Short: "Print the ID that stores, logs and the keys commands know a key by", Args: takes(3, 3),
		Example: "  fanonce keys show \"$(fanonce key id tenant-7 shop order-42)\"",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := a.key(args[2])
			if err != nil {
				return fmt.Errorf("KEY: %w", err)
			}
			if err := checkScope(args[0], args[1]); err != nil {
				return err
			}
			id := store.NewID(args[0], args[1], key)
			return a.printLine(idOut{id.String()}, id.String())
		},
	}
}

// verifyOut is the JSON of key verify.
type verifyOut struct {
	Valid bool `json:"valid"`
	// Derived says whether the key is the child that the other arguments name; absent if there are none.
	Derived  *bool  `json:"derived,omitempty"`
	Encoding string `json:"encoding,omitempty"` // of the child
}

func newKeyVerify(a *app) *cobra.Command {
	var d derivation
	cmd := &cobra.Command{
		Use:   "verify KEY [PARENT SERVICE OPERATION [DISCRIMINATOR]...]",
		Short: "Check that a key is valid, and whose child it is",
		Long: `Check that KEY is a valid key. With PARENT, SERVICE and OPERATION also check that KEY is the key of that call, in
any encoding, or by the legacy formula. The exit code is 0 if it is, else 1.`,
		Example: "  fanonce key verify 0b7a5c… order-42 payment charge",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return takes(4, -1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.verify(&d, args) },
	}
	cmd.Flags().StringVar(&d.scope, "scope", "", "PARENT is an inbound key of this scope: its hop key counts")
	cmd.Flags().StringVar(&d.namespace, "namespace", "", "the guard's namespace, with --scope")
	return cmd
}

func (a *app) verify(d *derivation, args []string) error {
	text, err := a.word(args[0])
	if err != nil {
		return err
	}
	key, invalid := childkey.Parse(text)
	out := verifyOut{Valid: invalid == nil}
	said := "valid"
	switch {
	case invalid != nil:
		said = ""
	case len(args) > 1:
		parent, err := a.key(args[1])
		if err != nil {
			return fmt.Errorf("PARENT: %w", err)
		}
		out.Encoding, err = d.match(key, parent, args[2], args[3], args[4:])
		if err != nil {
			return err
		}
		derived := out.Encoding != ""
		out.Derived, said = &derived, "derived, as "+out.Encoding
	}
	return a.printVerdict(out, said, invalid)
}

func (a *app) printVerdict(out verifyOut, said string, invalid error) error {
	isNo := invalid != nil || out.Derived != nil && !*out.Derived
	switch {
	case a.json:
		if err := writeJSON(a.stdout, out); err != nil {
			return err
		}
	case invalid != nil:
		return no("not valid: %v", invalid)
	case isNo:
		return no("valid, but not the key of that call")
	default:
		_, err := fmt.Fprintln(a.stdout, said)
		return err
	}
	if isNo {
		return no("")
	}
	return nil
}

const legacyName = "legacy"

// match returns the encoding in which key is the child, or "".
func (d *derivation) match(key, parent childkey.Key, service, operation string, more []string) (string, error) {
	for _, name := range encodingNames() {
		d.encoding = name
		child, err := d.child(parent, service, operation, more)
		if err != nil {
			return "", err
		}
		if child == key {
			return name, nil
		}
	}
	if len(more) > 0 {
		return "", nil
	}
	from, err := d.parent(parent)
	if err != nil {
		return "", err
	}
	if child, err := childkey.Legacy(from, service, operation); err == nil && child == key {
		return legacyName, nil
	}
	return "", nil
}
